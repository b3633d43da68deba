"""The contract: one check for every requirement, from evidence to findings, and what judges by them."""

from pytest_harness.contract import (
    company,
    errors,
    finishes,
    graphs,
    isolation,
    logprobs,
    pairing,
    retries,
    rewards,
    sandbox,
    seam,
    sides,
    streams,
    tokens,
    trajectory,
    translation,
    usage,
)
from pytest_harness.contract.grading import Grade, State, grade, mean, reward
from pytest_harness.contract.groups import group_findings
from pytest_harness.contract.judge import deviations_in_range, judge, judge_one
from pytest_harness.contract.model import (
    ContractError,
    Fault,
    Finding,
    Judgement,
    NotExercised,
    Result,
    Unverifiable,
    check,
    check_of,
    registered,
)
from pytest_harness.contract.outline import Outline
from pytest_harness.contract.validity import Blame, Validity, trial_exception, validity

FAMILIES = (
    tokens,
    logprobs,
    graphs,
    sides,
    retries,
    pairing,
    streams,
    translation,
    usage,
    finishes,
    errors,
    trajectory,
    rewards,
    isolation,
    company,
    sandbox,
    seam,
)
"""The modules whose import registers the checks."""

__all__ = [
    "FAMILIES",
    "Blame",
    "ContractError",
    "Fault",
    "Finding",
    "Grade",
    "Judgement",
    "NotExercised",
    "Outline",
    "Result",
    "State",
    "Unverifiable",
    "Validity",
    "check",
    "check_of",
    "deviations_in_range",
    "grade",
    "group_findings",
    "judge",
    "judge_one",
    "mean",
    "registered",
    "reward",
    "trial_exception",
    "validity",
]
