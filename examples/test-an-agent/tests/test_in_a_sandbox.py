"""The program as it is installed, once, on a real task in the sandbox."""

from pathlib import Path

from pytest_harness.fixtures import broken

SEAMS = Path(__file__).parents[1] / "seams"


def test_it_solves_a_task_and_its_tokens_may_be_trained_on(rollout):
    evidence = rollout("sum-agent", "edit_file", seams=SEAMS)
    assert evidence.trial_result["verifier_result"]["rewards"] == {"reward": 1.0}
    assert not broken(evidence)
