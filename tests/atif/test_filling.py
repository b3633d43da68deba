"""Filling: the captured ids stand in the copy as they were captured, and what would be a guess is refused in one sentence."""

import json
import shutil
import subprocess
import sys

import pytest
from harbor.models.trajectories import Trajectory

from pytest_harness.contract import judge
from pytest_harness.evidence import find_evidence, read_evidence
from pytest_harness.filling import NOTE, FillError, fill, fill_into
from pytest_harness.requirements import load_catalogue
from pytest_harness.resources import resource
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.extras import stopped_call
from pytest_harness.saboteurs.surgery import TRAJECTORY, edit_file, edit_request, with_call, with_file

CATALOGUE = load_catalogue()
RECORDED = sorted(find_evidence(resource("fixtures", "evidence")))
NAMES = ["/".join(folder.parts[-5:-1]) for folder in RECORDED]


def filled_steps(document):
    return [step["metrics"] for step in document["steps"] if step["source"] == "agent"]


def refusal(evidence):
    with pytest.raises(FillError) as error:
        fill(evidence, CATALOGUE)
    return str(error.value)


def with_steps(evidence, edit):
    return edit_file(evidence, TRAJECTORY, lambda document: edit(document["steps"]))


@pytest.mark.parametrize("folder", RECORDED, ids=NAMES)
def test_what_was_captured_reads_back_from_the_copy_as_it_was_captured(folder):
    evidence = read_evidence(folder)
    document = json.loads(json.dumps(fill(evidence, CATALOGUE)["trajectory.json"]))
    steps = [step for step in Trajectory.model_validate(document).steps if step.source == "agent"]
    assert steps
    by_call = {call.index: call for call in evidence.calls}
    for step, raw in zip(steps, filled_steps(document), strict=True):
        call = by_call[raw["extra"]["harness_conformance"]["call"]]
        assert tuple(step.metrics.prompt_token_ids) == call.prompt_ids
        assert tuple(step.metrics.completion_token_ids) == call.samples[0].token_ids
        assert tuple(step.metrics.logprobs) == call.samples[0].logprobs
    assert [raw["extra"]["harness_conformance"]["call"] for raw in filled_steps(document)] == sorted(
        {raw["extra"]["harness_conformance"]["call"] for raw in filled_steps(document)}
    )


@pytest.mark.parametrize("folder", RECORDED, ids=NAMES)
def test_the_copy_keeps_every_requirement_that_the_log_kept(folder):
    evidence = read_evidence(folder)
    copy = with_file(evidence, TRAJECTORY, json.dumps(fill(evidence, CATALOGUE)["trajectory.json"]))
    before, after = ({each.requirement.id: each.result for each in judge(one, CATALOGUE)} for one in (evidence, copy))
    assert after == before
    assert after["ATF-019"] == "passed"


def test_nothing_but_ids_counts_and_the_note_is_added(healthy):
    evidence = healthy.pi()
    document = fill(evidence, CATALOGUE)["trajectory.json"]
    assert document.pop("notes") == NOTE
    for metrics in filled_steps(document):
        for name in ("prompt_token_ids", "completion_token_ids", "logprobs", "extra"):
            del metrics[name]
    assert document == evidence.trajectory


def test_side_calls_and_subagents_on_the_wire_are_not_mixed_in(healthy):
    evidence = healthy.in_company()
    document = fill(evidence, CATALOGUE)["trajectory.json"]
    assert [metrics["extra"]["harness_conformance"]["call"] for metrics in filled_steps(document)] == [1, 4, 6]


def test_a_subagent_in_its_own_file_is_filled_there(healthy):
    """Of two calls of the agent, the last is told by a subagent that the first refers to."""
    evidence = healthy.pi()

    def move(document):
        last = document["steps"].pop()
        last["step_id"] = 1
        document["steps"][1]["observation"]["results"][0]["subagent_trajectory_ref"] = [{"trajectory_path": "trajectory.helper.json"}]
        document["final_metrics"]["total_steps"] = len(document["steps"])
        moved.update({"schema_version": "ATIF-v1.7", "agent": {"name": "helper", "version": "1.6.0"}, "steps": [last]})

    moved = {}
    evidence = edit_file(evidence, TRAJECTORY, move)
    evidence = with_file(evidence, "trial/agent/trajectory.helper.json", json.dumps(moved))
    filled = fill(evidence, CATALOGUE)
    assert sorted(filled) == ["trajectory.helper.json", "trajectory.json"]
    assert filled_steps(filled["trajectory.helper.json"])[0]["completion_token_ids"] == list(evidence.calls[-1].samples[0].token_ids)
    assert len(filled_steps(filled["trajectory.json"])) == len(evidence.calls) - 1


def test_an_old_version_becomes_the_first_that_has_ids(healthy):
    def old(document):
        document.update(schema_version="ATIF-v1.2", session_id="one")
        for step in document["steps"]:
            step.pop("llm_call_count", None)

    document = fill(edit_file(healthy.pi(), TRAJECTORY, old), CATALOGUE)["trajectory.json"]
    assert document["schema_version"] == "ATIF-v1.4"
    assert Trajectory.model_validate(document).schema_version == "ATIF-v1.4"


def test_a_log_whose_steps_only_their_order_tells_apart_is_refused(healthy):
    def anonymous(steps):
        for step in steps:
            if step["source"] == "agent":
                for name in ("tool_calls", "observation", "extra"):
                    step.pop(name, None)
                step["message"] = ""

    assert "nothing but its place tells which it is" in refusal(with_steps(healthy.pi(), anonymous))


def test_a_call_that_no_step_tells_is_refused(healthy):
    def forget(steps):
        steps[2] = {"step_id": 3, "source": "system", "message": "Something happened."}

    assert "ATF-002 Logged calls are the calls on the wire does not hold" in refusal(with_steps(healthy.pi(), forget))


def test_a_call_that_is_counted_and_not_told_is_refused(healthy):
    def hide(steps):
        steps[1]["llm_call_count"] = 2
        steps[2] = {"step_id": 3, "source": "system", "message": "Something happened."}

    assert "call 1 is told by no step" in refusal(with_steps(healthy.pi(), hide))


def test_a_log_of_another_run_is_refused(healthy):
    assert "ATF-021 Logged replies were captured does not hold" in refusal(apply("foreign_reply_id", healthy.pi()))


@pytest.mark.parametrize("saboteur", ["retokenised_sample", "lost_sampled_ids", "nan_logprob"])
def test_what_is_below_the_token_contract_is_refused(healthy, saboteur):
    assert "does not hold" in refusal(apply(saboteur, healthy.pi()))


def test_a_step_that_counts_other_tokens_is_refused(healthy):
    assert "one of them is another call" in refusal(apply("swapped_step_tokens", healthy.pi()))


def test_a_harness_without_a_trajectory_is_refused(healthy):
    assert "there is no trial/agent/trajectory.json to fill" in refusal(apply("no_trajectory", healthy.pi()))


def test_a_step_that_sums_up_two_calls_is_refused(healthy):
    def merge(steps):
        del steps[3]
        steps[2].update(llm_call_count=2)
        for name in ("tool_calls", "observation", "extra", "metrics"):
            steps[2].pop(name, None)
        steps[2]["message"] = ""

    assert "sums up several calls" in refusal(with_steps(healthy.pi(), merge))


def test_what_constrained_the_sampling_is_said_beside_the_ids(healthy):
    evidence = healthy.pi()
    call = edit_request(evidence.calls[1], lambda body: body.update(tool_choice="required"))
    call = call.model_copy(update={"constraints": ("tool_choice",)})
    steps = filled_steps(fill(with_call(evidence, call), CATALOGUE)["trajectory.json"])
    assert [metrics["extra"]["harness_conformance"].get("constraints") for metrics in steps] == [None, ["tool_choice"], None]


def test_evidence_is_never_written_to_and_two_attempts_never_share_a_file(healthy, tmp_path):
    one, other = healthy.pi(), healthy.pi()
    folder = tmp_path / "pi" / "local" / "scripted" / "edit_file" / "1"
    written, refused = fill_into(tmp_path, {folder: one}, CATALOGUE)
    assert (written, len(refused)) == ([], 1)
    assert "is evidence, which is never changed" in refused[0]
    written, refused = fill_into(tmp_path / "copy", {folder: one, tmp_path / "elsewhere": other}, CATALOGUE)
    assert [path.name for path in written] == ["trajectory.json"]
    assert "has the trajectory of another attempt already" in refused[0]


def test_a_trajectory_that_refers_to_files_outside_its_folder_is_not_written_there(healthy, tmp_path):
    evidence = edit_file(healthy.pi(), TRAJECTORY, lambda document: document.update(continued_trajectory_ref="../outside.json"))
    step = {"step_id": 1, "source": "user", "message": "Go on."}
    outside = {"schema_version": "ATIF-v1.7", "agent": {"name": "pi", "version": "1.6.0"}, "steps": [step]}
    evidence = with_file(evidence, "trial/outside.json", json.dumps(outside))
    written, refused = fill_into(tmp_path, {tmp_path / "evidence": evidence}, CATALOGUE)
    assert written == []
    assert "which is outside its own folder" in refused[0]


def test_the_command_fills_copies_and_leaves_the_evidence_alone(tmp_path):
    source = RECORDED[0]
    evidence = tmp_path / "evidence" / "/".join(source.parts[-5:])
    shutil.copytree(source, evidence)
    before = {path: path.read_bytes() for path in (evidence / "trial").rglob("*") if path.is_file()}
    command = [sys.executable, "-m", "pytest_harness.cli", "judge", str(tmp_path / "evidence"), "--fill-atif", str(tmp_path / "filled")]
    done = subprocess.run([*command, "--report-dir", str(tmp_path / "report")], capture_output=True, text=True, check=False)
    assert "filled trajectories: 1 of 1" in done.stdout, done.stderr
    assert len(list((tmp_path / "filled").rglob("trajectory.json"))) == 1
    assert {path: path.read_bytes() for path in (evidence / "trial").rglob("*") if path.is_file()} == before


def test_the_command_says_what_it_could_not_fill_and_ends_with_1(tmp_path):
    source = RECORDED[0]
    evidence = tmp_path / "evidence" / "/".join(source.parts[-5:])
    shutil.copytree(source, evidence)
    command = [sys.executable, "-m", "pytest_harness.cli", "judge", str(tmp_path / "evidence"), "--fill-atif", str(tmp_path / "evidence")]
    done = subprocess.run([*command, "--report-dir", str(tmp_path / "report")], capture_output=True, text=True, check=False)
    assert "is evidence, which is never changed; name another folder" in done.stdout, done.stderr
    assert done.returncode == 1


def test_a_stop_reply_in_the_log_is_left_without_ids(healthy):
    def log(document):
        step = {
            "step_id": 5,
            "source": "agent",
            "message": "The budget is used up.",
            "llm_call_count": 1,
            "extra": {"response_id": "stop-3"},
        }
        document["steps"].append(step)

    document = fill(edit_file(stopped_call(healthy.pi()), TRAJECTORY, log), CATALOGUE)["trajectory.json"]
    assert ["metrics" in step for step in document["steps"]] == [False, True, True, True, False]
