"""The contract: one check for every requirement, from evidence to findings, and what judges by them."""

from pytest_harness.contract import graphs, isolation, logprobs, pairing, rewards, seam, streams, tokens, trajectory
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
from pytest_harness.contract.validity import Blame, Validity, reward, trial_exception, validity

FAMILIES = (tokens, logprobs, graphs, pairing, streams, trajectory, rewards, isolation, seam)
"""The modules whose import registers the checks."""

__all__ = [
    "FAMILIES",
    "Blame",
    "ContractError",
    "Fault",
    "Finding",
    "Judgement",
    "NotExercised",
    "Result",
    "Unverifiable",
    "Validity",
    "check",
    "check_of",
    "deviations_in_range",
    "judge",
    "judge_one",
    "registered",
    "reward",
    "trial_exception",
    "validity",
]
