"""SBX: when a trial is over, nothing of it is left running."""

import pytest

from pytest_harness.session.case_marks import requirement
from pytest_harness.verifiers.canaries import OVER


@requirement("SBX-301")
@pytest.mark.parametrize("name", OVER)
def test_what_the_agent_left_is_gone_when_the_trial_is_over(case, name):
    case.is_over(OVER[name])
