"""What the test modules of the wire suite share: which requirement a test is of, and over what it is repeated."""

from __future__ import annotations

import pytest

from pytest_harness.wire.adapter import DIALECTS

REQUIREMENT = "requirement"


def requirement(name: str) -> pytest.MarkDecorator:
    """Marks a test as one of this requirement."""
    return getattr(pytest.mark, REQUIREMENT)(name)  # type: ignore[no-any-return]


each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
both_modes = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
