"""What the test modules of every suite share: which requirement a test is of."""

from __future__ import annotations

import pytest

REQUIREMENT = "requirement"


def requirement(name: str) -> pytest.MarkDecorator:
    """Marks a test as one of this requirement."""
    return getattr(pytest.mark, REQUIREMENT)(name)  # type: ignore[no-any-return]
