"""Reading: nothing in a document breaks a check, references are followed once, and what lies elsewhere is left alone."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harness.atif import PATH, read_trace
from pytest_harness.contract import judge_one
from pytest_harness.evidence import read_evidence, write_evidence
from pytest_harness.requirements import load_catalogue
from pytest_harness.resources import resource

GOOD = resource("fixtures", "trajectories", "good")
ATF = [requirement for requirement in load_catalogue() if requirement.family == "ATF"]
DOCUMENTS = [json.loads((GOOD / f"v1.{minor}" / "trajectory.json").read_text(encoding="utf-8")) for minor in (0, 5, 7, 8)]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["agent", "ATIF-v1.8", "call_one"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "type", "steps", "extra"]), inner, max_size=3),
    max_leaves=6,
)


def places(value, path=()):
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def changed(document, path, value):
    if not path:
        return value
    copy = json.loads(json.dumps(document))
    target = copy
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return copy


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_stands_in_a_document_every_check_has_an_answer(healthy, data):
    document = data.draw(st.sampled_from([*DOCUMENTS, json.loads(healthy.pi().files[PATH])]))
    path = data.draw(st.sampled_from([*places(document)]))
    text = json.dumps(changed(document, path, data.draw(VALUES)))
    for evidence in (replace(healthy.pi(), files={PATH: text}), replace(healthy.pi(), files={PATH: text}, calls=())):
        answers = [judge_one(evidence, requirement) for requirement in ATF]
        assert [answer.reason for answer in answers if answer.result == "error"] == []


def trace(document, **files):
    texts = {f"trial/agent/{name}.json": json.dumps(content) for name, content in files.items()}
    return read_trace({PATH: json.dumps(document), **texts})


def test_files_that_continue_each_other_in_a_circle_are_read_once_and_the_circle_is_found():
    step = {"step_id": 1, "source": "user", "message": "Go."}
    found = trace(
        {"continued_trajectory_ref": "b.json", "steps": [step]}, b={"continued_trajectory_ref": "trajectory.json", "steps": [step]}
    )
    assert [document.path for document in found.documents] == [PATH, "trial/agent/b.json"]
    assert [problem.where for problem in found.dangling] == ["trial/agent/b.json continued_trajectory_ref"]


@pytest.mark.parametrize("reference", ["b.json", "./b.json", "/logs/agent/b.json", "/somewhere/on/a/host/b.json"])
def test_a_file_is_found_beside_the_document_whatever_its_folder_was_called(reference):
    found = trace({"continued_trajectory_ref": reference}, b={})
    assert [document.path for document in found.documents] == [PATH, "trial/agent/b.json"]
    assert found.dangling == ()


def test_what_lies_behind_a_url_is_neither_followed_nor_missing():
    found = trace({"continued_trajectory_ref": "s3://bucket/b.json"})
    assert (len(found.documents), found.dangling) == (1, ())


def test_subagents_of_subagents_have_places_in_their_file():
    inner = {"trajectory_id": "inner", "steps": []}
    outer = {"trajectory_id": "outer", "steps": [], "subagent_trajectories": [inner]}
    found = trace({"subagent_trajectories": [{"trajectory_id": "first", "steps": []}, outer]})
    assert [document.at("steps[0]") for document in found.documents[2:]] == [
        f"{PATH} subagent_trajectories[1].steps[0]",
        f"{PATH} subagent_trajectories[1].subagent_trajectories[0].steps[0]",
    ]
    assert len(found.orphans) == 3


def test_embedded_subagents_that_share_an_id_are_found():
    twins = [{"trajectory_id": "twin", "steps": []}] * 2
    assert len(trace({"subagent_trajectories": twins}).dangling) == 1


def test_a_picture_that_is_no_text_file_is_still_there():
    source = {"media_type": "image/png", "path": "images/shed.png"}
    document = json.dumps({"steps": [{"step_id": 1, "source": "user", "message": [{"type": "image", "source": source}]}]})
    assert len(read_trace({PATH: document}).dangling) == 1
    assert read_trace({PATH: document}, others={"trial/agent/images/shed.png"}).dangling == ()


def test_stored_evidence_knows_the_files_that_are_no_text(healthy, tmp_path):
    trial = tmp_path / "trial"
    (trial / "agent" / "images").mkdir(parents=True)
    (trial / "agent" / "images" / "shed.png").write_bytes(b"\x89PNG\xff\xfe")
    (trial / "agent" / "trajectory.json").write_text("{}")
    evidence = healthy.pi()
    folder = write_evidence(tmp_path / "evidence", evidence.manifest, evidence.calls, {"trial": trial})
    read = read_evidence(folder)
    assert read.others == {"trial/agent/images/shed.png"}
    assert set(read.files) == {"trial/agent/trajectory.json"}


def nested(levels):
    """The text of a trajectory in which so many subagents stand inside each other, each referred to by its parent."""
    reference = [{"trajectory_id": "inner"}]
    asks = {"step_id": 1, "source": "agent", "message": "", "observation": {"results": [{"subagent_trajectory_ref": reference}]}}
    opening = json.dumps({"trajectory_id": "inner", "steps": [asks]})[:-1] + ', "subagent_trajectories": ['
    return opening * levels + json.dumps({"trajectory_id": "inner", "steps": []}) + "]}" * levels


@pytest.mark.parametrize("levels", [101, 400])
def test_subagents_inside_each_other_without_end_are_one_finding(healthy, levels):
    evidence = replace(healthy.pi(), files={PATH: nested(levels)})
    answers = {requirement.id: judge_one(evidence, requirement) for requirement in ATF}
    assert [answer.reason for answer in answers.values() if answer.result == "error"] == []
    (finding,) = answers["ATF-009"].findings
    assert (finding.where, finding.expected) == (PATH, "at most 100 subagents inside each other")


def test_as_many_subagents_inside_each_other_as_are_read_are_no_finding(healthy):
    found = read_trace({PATH: nested(100)})
    assert (len(found.documents), found.dangling, found.orphans) == (101, (), ())


@pytest.mark.parametrize("text", ["[" * 200_000, nested(5000)])
def test_a_document_that_no_parser_takes_is_one_finding(healthy, text):
    evidence = replace(healthy.pi(), files={PATH: text})
    answers = {requirement.id: judge_one(evidence, requirement) for requirement in ATF}
    assert [answer.reason for answer in answers.values() if answer.result == "error"] == []
    assert [finding.seen for finding in answers["ATF-001"].findings] == ["a file that is no JSON object, or one that is nested too deeply"]


def test_subagents_in_files_of_their_own_may_refer_to_each_other_without_end():
    def refers(number):
        results = [{"subagent_trajectory_ref": [{"trajectory_path": f"{number}.json"}]}]
        return {"steps": [{"step_id": 1, "source": "agent", "message": "", "observation": {"results": results}}]}

    found = trace(refers(0), **{str(number): refers(number + 1) for number in range(1000)})
    assert [problem.expected for problem in found.dangling] == ["at most 100 subagents inside each other"]


def test_a_thousand_files_may_continue_each_other():
    files = {str(number): {"continued_trajectory_ref": f"{number + 1}.json"} for number in range(999)} | {"999": {}}
    found = trace({"continued_trajectory_ref": "0.json"}, **files)
    assert (len(found.documents), found.dangling) == (1001, ())
