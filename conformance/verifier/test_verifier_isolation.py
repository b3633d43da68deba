"""ISO and REW: what the agent must neither find nor bring about."""

import pytest

from pytest_harness.session.case_marks import requirement
from pytest_harness.verifiers.canaries import ESCAPES, GRADING, LEFT, MACHINE, OTHERS


@requirement("ISO-302")
@pytest.mark.parametrize("name", GRADING)
def test_what_grades_is_not_there_while_the_agent_runs(case, name):
    case.is_closed(GRADING[name])


@requirement("ISO-303")
@pytest.mark.parametrize("name", OTHERS)
def test_nothing_of_another_attempt_is_found(case, name):
    case.is_closed(OTHERS[name])


@requirement("ISO-304")
@pytest.mark.parametrize("name", MACHINE)
def test_nothing_of_this_machine_is_reached(case, name):
    case.is_closed(MACHINE[name])


@requirement("ISO-305")
@pytest.mark.parametrize("name", ESCAPES)
def test_no_way_leads_out(case, name):
    case.is_closed(ESCAPES[name])


@requirement("REW-308")
@pytest.mark.parametrize("name", LEFT)
def test_a_process_that_the_agent_left_moves_no_reward(case, name):
    case.is_not_moved(LEFT[name])
