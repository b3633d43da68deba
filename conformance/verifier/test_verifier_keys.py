"""ISO: a verifier with a key of its own has the operator's, and never the seam's."""

import pytest

from pytest_harness.session.case_marks import requirement
from pytest_harness.verifiers.plays import KEYS


@requirement("ISO-301")
@pytest.mark.parametrize("name", KEYS)
def test_each_side_has_its_own_key(case, name):
    case.counts(KEYS[name])
