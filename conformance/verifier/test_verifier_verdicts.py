"""REW: what the verifier says is the reward, and what is no verdict is no number."""

import pytest

from pytest_harness.session.case_marks import requirement
from pytest_harness.verifiers.plays import BESIDE, NO_NUMBER, NO_VERDICT, NOT_REACHED, NUMBERS, PLANTED, VOID

SILENT = {**NO_NUMBER, **NO_VERDICT, **NOT_REACHED}


@requirement("REW-301")
@pytest.mark.parametrize("name", NUMBERS)
def test_the_number_of_the_verifier_is_the_reward(case, name):
    case.counts(NUMBERS[name])


@requirement("REW-302")
@pytest.mark.parametrize("name", [*NO_VERDICT, *NOT_REACHED])
def test_no_verdict_is_no_number(case, name):
    case.is_silent(SILENT[name])


@requirement("REW-303")
@pytest.mark.parametrize("name", NO_NUMBER)
def test_what_is_no_finite_number_is_refused(case, name):
    case.is_silent(NO_NUMBER[name])


@requirement("REW-304")
@pytest.mark.parametrize("name", SILENT)
def test_what_went_wrong_is_named(case, name):
    case.is_named(SILENT[name])


@requirement("REW-305")
@pytest.mark.parametrize("name", BESIDE)
def test_an_agent_that_fails_is_graded_all_the_same(case, name):
    case.counts(BESIDE[name])


@requirement("REW-306")
@pytest.mark.parametrize("name", VOID)
def test_a_reward_that_says_nothing_of_the_model_does_not_count(case, name):
    case.is_void(VOID[name])


@requirement("REW-307")
@pytest.mark.parametrize("name", PLANTED)
def test_a_reward_that_the_agent_wrote_is_none(case, name):
    case.is_silent(PLANTED[name])
