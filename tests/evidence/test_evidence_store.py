"""Evidence goes to disk whole, comes back equal, and says clearly when it cannot be read."""

from __future__ import annotations

import dataclasses
import json
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.evidence import (
    Call,
    Ending,
    EvidenceError,
    Manifest,
    Message,
    Sample,
    ScenarioFacts,
    SeamFacts,
    Times,
    find_evidence,
    read_evidence,
    write_evidence,
)


def manifest(**changes) -> Manifest:
    fields = {
        "attempt_id": "a1",
        "run_id": "r1",
        "harness": "pi",
        "sandbox": "local",
        "engine": "scripted",
        "scenario": ScenarioFacts(name="edit_file", steps=2, shell_commands=(("true",), ()), reward=1.0),
        "attempt": 1,
        "seam": SeamFacts(harness="pi", digest="0" * 64, dialect="chat", streams=True, trajectory="atif"),
        "model": "scripted",
        "versions": {"harness": "1.6.0"},
        "requirements": "2026.11",
        "started_at": "2026-11-29T00:00:00.000+00:00",
        "ended_at": "2026-11-29T00:00:01.000+00:00",
        "ending": Ending(how="finished"),
    }
    return Manifest(**{**fields, **changes})


def call(token_ids=(1, 2), logprobs=(-0.5, -0.25), index=0) -> Call:
    request = Message(headers={"content-type": "application/json"}, body='{"model":"m"}')
    return Call(
        index=index,
        id=f"call-{index}",
        dialect="chat",
        method="POST",
        path="/v1/chat/completions",
        streamed=False,
        received=request,
        prompt_ids=(0,),
        samples=(Sample(index=0, token_ids=token_ids, logprobs=logprobs, finish_reason="stop"),),
        outcome="complete",
        times=Times(received=1.0),
    )


def test_what_was_written_is_read_back_equal(tmp_path):
    trial = tmp_path / "work" / "trial"
    (trial / "agent").mkdir(parents=True)
    (trial / "result.json").write_text('{"reward": null}')
    (trial / "agent" / "trajectory.json").write_text('{"steps": []}')
    calls = (call(index=0), call(index=1))

    folder = write_evidence(tmp_path / "evidence", manifest(), calls, {"trial": trial, "native": tmp_path / "nothing"})
    evidence = read_evidence(folder)

    assert folder == tmp_path / "evidence" / "pi" / "local" / "scripted" / "edit_file" / "1"
    assert (evidence.manifest, evidence.calls) == (manifest(), calls)
    assert evidence.trial_result == {"reward": None}
    assert evidence.trajectory == {"steps": []}
    assert evidence.name == "pi-in-local-edit_file"


@given(
    ids=st.lists(st.one_of(st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False), st.text())),
    logprobs=st.lists(st.one_of(st.none(), st.floats(allow_nan=False))),
)
def test_ids_and_logprobs_are_kept_as_the_engine_sent_them(ids, logprobs):
    seen = call(tuple(ids), tuple(logprobs))
    again = Call.model_validate(json.loads(seen.model_dump_json()))
    assert [(type(value), value) for value in again.samples[0].token_ids] == [(type(value), value) for value in ids]
    assert list(again.samples[0].logprobs) == logprobs


def test_line_ends_that_json_leaves_alone_do_not_tear_a_call(tmp_path):
    said = "a\u2028b\u0085c\x1ed"
    seen = call().model_copy(update={"received": Message(headers={}, body=said)})
    folder = write_evidence(tmp_path, manifest(), (seen, call(index=1)), {})
    assert [each.received.body for each in read_evidence(folder).calls] == [said, '{"model":"m"}']


def test_a_nan_logprob_survives_the_round_trip():
    again = Call.model_validate(json.loads(call((1,), (math.nan,)).model_dump_json()))
    assert math.isnan(again.samples[0].logprobs[0])


def test_an_attempt_run_again_replaces_the_older_evidence(tmp_path):
    write_evidence(tmp_path, manifest(run_id="old"), (call(),), {})
    folder = write_evidence(tmp_path, manifest(run_id="new"), (), {})
    assert read_evidence(folder).manifest.run_id == "new"
    assert list(find_evidence(tmp_path)) == [folder]
    assert [path.name for path in folder.parent.iterdir()] == ["1"]


def test_a_secret_is_in_no_file_of_the_evidence(tmp_path):
    trial = tmp_path / "work"
    trial.mkdir()
    (trial / "log.txt").write_text("Authorization: Bearer canary-123")
    (trial / "core.bin").write_bytes(b"\xff\x00canary-123\xfe")
    folder = write_evidence(tmp_path / "evidence", manifest(), (), {"trial": trial}, secrets=("canary-123",))
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not [content for content in written if b"canary-123" in content]
    assert (folder / "trial" / "core.bin").read_bytes() == b"\xff\x00<redacted>\xfe"


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    with pytest.raises(AttributeError):
        write_evidence(tmp_path, manifest(), (object(),), {})
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert list(find_evidence(tmp_path)) == []


def test_a_manifest_of_harbors_own_trial_is_not_taken_for_evidence(tmp_path):
    trial = tmp_path / "work"
    (trial / "artifacts").mkdir(parents=True)
    (trial / "artifacts" / "manifest.json").write_text("[]")
    folder = write_evidence(tmp_path / "evidence", manifest(), (), {"trial": trial})
    assert list(find_evidence(tmp_path / "evidence")) == [folder]
    assert list(find_evidence(folder)) == [folder]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder: (folder / "calls.ndjson").unlink(), "calls.ndjson is missing"),
        (lambda folder: (folder / "calls.ndjson").write_text('{"index": 0'), "calls.ndjson, line 1 is not JSON"),
        (lambda folder: (folder / "calls.ndjson").write_text('{"index": 0}'), "calls.ndjson, line 1: id: Field required"),
        (lambda folder: (folder / "manifest.json").write_text('{"evidence_version": 99}'), "evidence of version 99"),
        (lambda folder: (folder / "manifest.json").write_bytes(b"\xff"), "manifest.json is not UTF-8"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "manifest.json: the document:"),
        (lambda folder: (folder / "manifest.json").write_text("[" * 100_000), "manifest.json is not JSON"),
        (lambda folder: ((folder / "calls.ndjson").unlink(), (folder / "calls.ndjson").mkdir()), "calls.ndjson is no plain file"),
        (lambda folder: ((folder / "calls.ndjson").unlink(), os.mkfifo(folder / "calls.ndjson")), "calls.ndjson is no plain file"),
    ],
)
def test_damaged_evidence_is_refused_in_one_sentence(tmp_path, damage, sentence):
    folder = write_evidence(tmp_path, manifest(), (call(),), {})
    damage(folder)
    with pytest.raises(EvidenceError) as caught:
        read_evidence(folder)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_torn_trajectory_counts_as_none(tmp_path):
    folder = write_evidence(tmp_path, manifest(), (), {})
    evidence = dataclasses.replace(read_evidence(folder), files={"trial/agent/trajectory.json": '{"steps": ['})
    assert evidence.trajectory is None
