"""Usage by model that does not agree: the finding says without which calls it would, and a deviation excuses no other way to disagree."""

import re

import pytest

from pytest_harness.contract import judge_one
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs.surgery import RESULT, edit_file, with_manifest
from pytest_harness.seams import SeamTable

ATF_024 = load_catalogue()["ATF-024"]


def counted(evidence, calls, *, more=0):
    """The rollout with a usage by model of these calls alone, and of so many tokens more."""
    prompt = sum(len(evidence.calls[index].prompt_ids) for index in calls) + more
    sampled = sum(len(evidence.calls[index].samples[0].token_ids) for index in calls)
    usage = {"tiny": {"n_input_tokens": prompt, "n_output_tokens": sampled}}
    return edit_file(evidence, RESULT, lambda document: document["agent_result"].update(model_usage=usage))


@pytest.mark.parametrize(
    ("calls", "missing"),
    [((0, 2), ", as without call 1"), ((0, 1), ", as without call 2"), ((2,), ", as without the 2 calls from call 0 on"), ((1,), "")],
)
def test_a_usage_that_lacks_calls_one_behind_the_other_is_told_with_them(healthy, calls, missing):
    evidence = counted(healthy.pi(), calls)
    tokens = sum(len(evidence.calls[index].prompt_ids) for index in calls)
    assert judge_one(evidence, ATF_024).findings[0].seen == f"{tokens}{missing}"


def test_a_usage_that_lacks_no_calls_is_told_alone(healthy):
    evidence = counted(healthy.pi(), (0, 2), more=1)
    assert judge_one(evidence, ATF_024).findings[0].seen.isdecimal()


@pytest.mark.parametrize(
    ("seen", "excused"), [("the 3 calls from call 2 on", True), ("the 2 calls from call 2 on", False), ("call 2", False)]
)
def test_only_the_three_calls_of_a_summary_are_excused_in_the_usage_of_terminus(seen, excused):
    (deviation,) = SeamTable.load()["terminus-2"].deviations
    assert bool(re.search(deviation.seen, f"6178, as without {seen}")) == excused
    assert not re.search(deviation.seen, "6178")


def test_the_deviation_of_terminus_excuses_no_other_usage(healthy):
    evidence = counted(healthy.pi(), (0, 2))
    deviations = SeamTable.load()["terminus-2"].deviations
    versions = evidence.manifest.versions | {"harbor": "0.26.0"}
    evidence = with_manifest(evidence, versions=versions, seam=evidence.manifest.seam.model_copy(update={"deviations": deviations}))
    judged = judge_one(evidence, ATF_024)
    assert (judged.result, "something else than the known deviation" in judged.reason) == ("failed", True)
