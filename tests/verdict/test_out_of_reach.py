"""What is out of a harness's reach is not waited for, and is judged where it comes up all the same."""

from dataclasses import replace

import pytest

from pytest_harness.requirements import load_catalogue
from pytest_harness.requirements.model import OUT_OF_REACH
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import TRAJECTORY, edit_file, edit_request, with_manifest
from pytest_harness.verdict import Rollout, seam_verdict

CATALOGUE = load_catalogue()


def acting(evidence, by):
    return with_manifest(evidence, seam=evidence.manifest.seam.model_copy(update={"acts_by": by}))


def verdict(*evidences):
    return seam_verdict((Rollout.of(evidence, CATALOGUE) for evidence in evidences), CATALOGUE)


@pytest.fixture
def words(healthy):
    """A rollout of one turn that says something and calls nothing."""
    evidence = healthy.pi()
    last = evidence.calls[-1]

    def ask(body):
        body["messages"] = body["messages"][:2]
        body.pop("tools", None)

    def log(document):
        document["steps"] = [step for step in document["steps"] if not step.get("tool_calls")]

    return replace(edit_file(evidence, TRAJECTORY, log), calls=(edit_request(last, ask),))


def missing(found):
    """What is required and did not come up."""
    return {each.requirement.id for each in found.requirements if each.due and not each.exercised}


def test_calls_are_not_waited_for_where_the_harness_has_no_tools(words):
    beyond = {"PAR-001", "PAR-002", "PAR-004", "PAR-005", "PAR-006", "PAR-007", "PAR-008", "TOK-012", "STR-006", "ATF-003", "ATF-004"}
    assert beyond <= missing(verdict(acting(words, "calls")))
    assert not missing(verdict(acting(words, "commands"))) & OUT_OF_REACH["commands"]
    assert missing(verdict(acting(words, "commands"))) == missing(verdict(acting(words, "calls"))) - OUT_OF_REACH["commands"]


def test_evidence_that_does_not_say_how_the_harness_acts_is_waited_for_as_before(words):
    plain = missing(verdict(acting(words, "calls")))
    assert missing(verdict(acting(words, None))) == plain
    both = (acting(words, "commands"), with_manifest(acting(words, None), attempt_id="older", attempt=2))
    assert missing(verdict(*both)) == missing(verdict(*both[::-1])) == plain


@pytest.mark.parametrize("fault", ["forged_logged_call", "stray_result", "lost_result"])
def test_a_call_that_nobody_can_make_is_judged_where_it_comes_up(healthy, fault):
    """Harbor told the keystrokes of a terminal as calls of a tool."""
    found = verdict(acting(apply(fault, healthy.pi()), "commands"))
    assert {each.requirement.id for each in found.requirements if each.standing == "failed"} & OUT_OF_REACH["commands"]
    assert found.status == "unsupported"
