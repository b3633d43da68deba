"""The fixture of the tests of collectors."""

import pytest

from pytest_harness.collect.case import CollectorCase
from pytest_harness.session.case_fixtures import SUBJECT


@pytest.fixture
def collecting(pytestconfig, tmp_path):
    """The collector of the runtime under test, and folders of its own."""
    return CollectorCase(pytestconfig.stash[SUBJECT].adapter.collector, tmp_path)
