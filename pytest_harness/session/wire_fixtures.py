"""The fixture of the wire suite. It exists only in a run that judges a proxy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_harness.wire.subject import Case, Subject

SUBJECT = pytest.StashKey[Subject]()


@pytest.fixture
def case(pytestconfig: pytest.Config) -> Iterator[Case]:
    """The proxy under test, an engine and clients for one test."""
    with pytestconfig.stash[SUBJECT].case() as made:
        yield made
