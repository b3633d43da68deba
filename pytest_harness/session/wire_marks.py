"""What the test modules of the wire suite share: which requirement a test is of, and over what it is repeated."""

from __future__ import annotations

import pytest

from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.adapter import DIALECTS

__all__ = ["both_modes", "each_dialect", "requirement"]

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
both_modes = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
