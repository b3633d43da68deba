"""Rows for trainers: each sampled token of the agent once, nothing else with weight, and nothing below the token contract."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_harness import saboteurs
from pytest_harness.evidence import Sample, Times, read_evidence
from pytest_harness.graph import build
from pytest_harness.requirements import Catalogue, load_catalogue
from pytest_harness.resources import resource
from pytest_harness.saboteurs import surgery
from pytest_harness.training import Refused, rows_of
from pytest_harness.training.rows import FAMILIES

CATALOGUE = load_catalogue("2026.12")
NOTHING = Catalogue("nothing", ())
BREAKING = sorted(
    {
        name
        for each in CATALOGUE.of("seam")
        if each.family in FAMILIES and each.binding
        for name in each.saboteurs
        if name in saboteurs.names()
    }
)


@pytest.fixture
def trained(healthy):
    """An episode of an engine that somebody trains."""
    return healthy.trained(healthy.pi(engine="attached"))


@pytest.fixture(scope="module")
def translated():
    """A real episode whose dialect is not the engine's."""
    return read_evidence(resource("fixtures", "evidence") / "claude-code" / "local" / "scripted" / "parallel_calls" / "1")


def refused(evidence, catalogue=CATALOGUE, **options):
    with pytest.raises(Refused) as caught:
        rows_of(evidence, catalogue, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_sampled_token_stands_in_the_row_with_its_logprob(trained):
    (row,) = rows_of(trained, CATALOGUE)
    first, last = trained.calls[0], trained.calls[-1]
    assert row.prompt_ids == first.prompt_ids
    assert row.prompt_ids + row.completion_ids == last.prompt_ids + last.samples[0].token_ids
    assert len(row.completion_ids) == len(row.mask) == len(row.logprobs)
    weighted = [(token, logprob) for token, logprob, one in zip(row.completion_ids, row.logprobs, row.mask, strict=True) if one]
    assert weighted == [pair for call in trained.calls for pair in zip(call.samples[0].token_ids, call.samples[0].logprobs, strict=True)]
    assert {logprob for logprob, one in zip(row.logprobs, row.mask, strict=True) if not one} == {None}


def test_a_row_says_whose_it_is(trained):
    (row,) = rows_of(trained, CATALOGUE)
    assert (row.episode, row.harness, row.engine, row.scenario) == (trained.manifest.attempt_id, "pi", "attached", "edit_file")
    assert (row.reward, row.reward_state, row.rehearsal, row.truncated) == (1.0, "valid", False, False)


def test_attempts_of_one_task_and_policy_are_one_group(healthy):
    def group(policy=None, **which):
        (row,) = rows_of(healthy.trained(healthy.pi(**{"engine": "attached", **which})), CATALOGUE, policy_version=policy)
        return row.group

    assert group(attempt=1) == group(attempt=2)
    assert len({group(), group(scenario="explore"), group("step 7"), group("step 8")}) == 4


def test_the_digest_of_the_weights_is_the_policy_and_absent_is_none(trained):
    told = surgery.with_manifest(trained, digests={**trained.manifest.digests, "model": "abc"})
    assert [row.policy_version for row in rows_of(told, CATALOGUE, policy_version="mine")] == ["abc"]
    assert [row.policy_version for row in rows_of(trained, CATALOGUE, policy_version="mine")] == ["mine"]
    assert [row.policy_version for row in rows_of(trained, CATALOGUE)] == [None]


def test_no_reward_is_none_and_never_zero(healthy):
    (row,) = rows_of(healthy.trained(healthy.pi(engine="attached", graded=False)), CATALOGUE)
    assert row.reward is None
    assert row.reward_state == "ungraded_exception"


@pytest.mark.parametrize("name", BREAKING)
def test_what_is_below_the_token_contract_is_refused_with_the_requirement(healthy, translated, name):
    broken = []
    for evidence in (healthy.trained(healthy.pi(engine="attached")), *healthy.every().values(), translated):
        try:
            broken.append(saboteurs.apply(name, evidence))
        except saboteurs.NothingToSabotage:
            continue
    assert broken, f"{name} finds nothing to break"
    said = [refused(evidence, rehearsal=True) for evidence in broken]
    assert any(f": {family}-" in sentence for sentence in said for family in FAMILIES) or all("counts for nothing" in each for each in said)


def test_what_counts_for_nothing_is_refused_with_who_is_to_blame(trained):
    assert "it counts for nothing; to blame: surroundings: no call reached the proxy" in refused(replace(trained, calls=()))


def test_a_script_is_no_policy_unless_it_is_a_rehearsal(healthy):
    evidence = healthy.pi()
    assert "never training data; --rehearsal" in refused(evidence)
    assert [row.rehearsal for row in rows_of(evidence, CATALOGUE, rehearsal=True)] == [True]


def test_the_harness_s_own_sampling_is_refused_by_its_requirement(trained):
    own = surgery.with_manifest(trained, purpose="eval")
    assert "(LGP-007); collect with rollout --llm-url URL --train" in refused(own)
    assert [row.rehearsal for row in rows_of(own, CATALOGUE, rehearsal=True)] == [True]


def conversation(evidence, *calls):
    """The evidence with calls of these prompts and samples, and of the moments at which they came and were answered."""
    made = []
    for index, (prompt, sampled, came, answered) in enumerate(calls):
        sample = Sample(index=0, token_ids=tuple(sampled), logprobs=tuple(-0.5 for _ in sampled), finish_reason="stop")
        times = Times(received=came, forwarded=came, first_byte=answered, replied=answered, delivered=answered)
        more = {"index": index, "id": f"call-{index}", "prompt_ids": tuple(prompt), "samples": (sample,), "times": times}
        made.append(evidence.calls[0].model_copy(update={**more, "constraints": ()}))
    return replace(evidence, calls=tuple(made))


def test_a_turn_that_two_branches_share_has_weight_in_one_of_them(trained):
    forked = conversation(trained, ([1, 2], [3], 0, 1), ([1, 2, 3, 4], [5, 6], 2, 9), ([1, 2, 3, 7], [8], 3, 10))
    assert len(build(forked.calls).forks) == 1
    one, other = rows_of(forked, NOTHING)
    assert (one.prompt_ids, one.completion_ids, one.mask) == ((1, 2), (3, 4, 5, 6), (1, 0, 1, 1))
    assert (other.prompt_ids, other.completion_ids, other.mask) == ((1, 2, 3, 7), (8,), (1,))
    assert (one.row, other.row) == (0, 1)
    assert one.episode == other.episode


def test_side_calls_are_in_no_row(trained):
    asked = conversation(trained, ([1, 2], [3], 0, 1), ([40], [41, 42], 1.1, 1.2), ([1, 2, 3, 4], [5, 6], 2, 3))
    calls = list(asked.calls)
    calls[1] = surgery.edit_request(calls[1], lambda body: body.pop("tools"))
    (row,) = rows_of(replace(asked, calls=tuple(calls)), NOTHING)
    assert not {40, 41, 42} & {*row.prompt_ids, *row.completion_ids}
    assert sum(row.mask) == 3


def test_constrained_turns_alone_make_no_row(trained):
    steered = replace(trained, calls=tuple(call.model_copy(update={"constraints": ("structured_outputs",)}) for call in trained.calls))
    assert "no turn of the agent may be trained on" in refused(steered, NOTHING)
