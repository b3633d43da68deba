"""The fixture of the suites that judge one subject. It exists only in a run that judges one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

SUBJECT = pytest.StashKey[Any]()
"""The subject, started: see ``cases.Started``."""


@pytest.fixture
def case(pytestconfig: pytest.Config) -> Iterator[Any]:
    """The subject under test, and all that the suite has for one test of it."""
    with pytestconfig.stash[SUBJECT].case() as made:
        yield made
