"""Whatever is wrong with a record is one sentence, at every door; and no file of a record, however it was changed, ends in a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harness import cli
from pytest_harness.evidence import EvidenceError, read_evidence
from pytest_harness.evidence.seal import SEAL
from pytest_harness.evidence.store import seal_record
from pytest_harness.reports.build import build_report
from pytest_harness.requirements import load_catalogue
from pytest_harness.resources import resource
from pytest_harness.verdict import Rollout, seam_verdicts

RECORD = resource("fixtures", "evidence", "pi", "local", "scripted", "parallel_calls", "1")
CATALOGUE = load_catalogue()


@pytest.fixture
def record(tmp_path):
    """A sealed record in ``tmp_path/evidence``."""
    folder = tmp_path / "evidence" / "1"
    shutil.copytree(RECORD, folder)
    seal_record(folder)
    return folder


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def lines(path: Path, change) -> None:
    path.write_text("".join(f"{line}\n" for line in change(path.read_text(encoding="utf-8").splitlines())), encoding="utf-8")


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo_instead(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def torn(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


MANIFEST, CALLS = "manifest.json", "calls.ndjson"
KINDS = {
    "truncated manifest": (MANIFEST, torn, "manifest.json is not JSON"),
    "truncated calls": (CALLS, torn, "calls.ndjson, line 1 is not JSON"),
    "a call less": (CALLS, lambda path: lines(path, lambda calls: calls[:-1]), "calls.ndjson was changed after the evidence was written"),
    "an empty line": (CALLS, lambda path: lines(path, lambda calls: [calls[0], "", *calls[1:]]), "calls.ndjson, line 2 is empty"),
    "a newer version": (
        MANIFEST,
        lambda path: edit(path, '"evidence_version": 1', '"evidence_version": 99'),
        "is evidence of version 99, this reader knows up to 1; use a newer harness-conformance",
    ),
    "a field of another program": (
        MANIFEST,
        lambda path: edit(path, '"attempt_id"', '"col\\nour": "red", "attempt_id"'),
        "manifest.json: col\\nour: Extra inputs are not permitted",
    ),
    "an edited manifest": (MANIFEST, lambda path: edit(path, '"attempt": 1', '"attempt": 2'), "manifest.json was changed after"),
    "an edited call": (CALLS, lambda path: edit(path, '"logprobs":[-', '"logprobs":[-9'), "calls.ndjson was changed after"),
    "a value of another type": (
        CALLS,
        lambda path: edit(path, '"index":0', '"index":"first"'),
        "calls.ndjson, line 1: index: Input should be",
    ),
    "an edited result": (
        "trial/result.json",
        lambda path: edit(path, '"reward_valid"', '"reward_Valid"'),
        "trial/result.json was changed after",
    ),
    "a file less": ("trial/result.json", Path.unlink, "trial/result.json is gone after"),
    "a file more": ("trial/verifier/reward.json", lambda path: path.write_text("{}"), "trial/verifier/reward.json was added after"),
    "an empty manifest": (MANIFEST, emptied, "manifest.json is empty; restore it or run the rollout again"),
    "empty calls": (CALLS, emptied, "calls.ndjson was changed after"),
    "no calls": (CALLS, Path.unlink, "calls.ndjson is missing, so this is not the whole evidence of an attempt"),
    "not UTF-8": (CALLS, lambda path: path.write_bytes(b"\xff\xfe{}"), "calls.ndjson is not UTF-8 text"),
    "another document": (MANIFEST, lambda path: path.write_text("[]"), "manifest.json: the document: Input should be"),
    "without end": (MANIFEST, lambda path: path.write_text("[" * 100_000), "manifest.json is not JSON"),
    "a number of too many digits": (MANIFEST, lambda path: path.write_text('{"attempt": ' + "9" * 5000 + "}"), "manifest.json is not JSON"),
    "a folder for the calls": (CALLS, folder_instead, "calls.ndjson is no plain file"),
    "a folder for the manifest": (MANIFEST, folder_instead, "manifest.json is no plain file"),
    "a pipe": (CALLS, fifo_instead, "calls.ndjson is no plain file"),
    "calls out of order": (CALLS, lambda path: lines(path, lambda calls: calls[::-1]), "calls.ndjson, line 2: call 0 stands behind call 1"),
    "a call twice": (
        CALLS,
        lambda path: lines(path, lambda calls: [calls[0], *calls]),
        "calls.ndjson, line 2: call 0 stands behind call 0",
    ),
    "a broken seal": (SEAL, lambda path: path.write_text("{"), "seal.json cannot be read after"),
}
damages = pytest.mark.parametrize(("name", "damage", "sentence"), KINDS.values(), ids=KINDS)


@damages
def test_a_bad_record_is_refused_in_one_sentence(record, name, damage, sentence):
    damage(record / name)
    with pytest.raises(EvidenceError) as caught:
        read_evidence(record)
    assert sentence in str(caught.value)
    assert str(caught.value).isprintable()
    assert str(record) in str(caught.value)


@damages
def test_judge_refuses_a_bad_record_in_one_line(record, name, damage, sentence, monkeypatch, capsys):
    damage(record / name)
    monkeypatch.setattr(sys, "argv", ["harness-conformance", "judge", str(record.parent), "--report-dir", str(record.parent / "report")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out, said.err.count("\n")) == (cli.USAGE_ERROR, "", 1)
    assert said.err.startswith("error: ")
    assert sentence in said.err
    assert not (record.parent / "report").exists()


@pytest.mark.parametrize("kind", ["truncated calls", "a newer version", "an edited call", "an empty manifest", "a folder for the calls"])
def test_replay_refuses_a_bad_record_in_the_same_sentence(record, run_pytest, kind):
    name, damage, sentence = KINDS[kind]
    damage(record / name)
    done = run_pytest(record.parent, "--replay=.")
    assert done.returncode == cli.USAGE_ERROR
    assert sentence in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_record_without_a_seal_is_of_an_older_version_and_read(record):
    sealed = read_evidence(record)
    (record / SEAL).unlink()
    assert read_evidence(record) == sealed


def test_a_record_can_be_sealed_anew_after_it_was_cleaned(record):
    edit(record / "trial" / "config.json", "{", '{"cleaned": true,')
    seal_record(record)
    assert json.loads(read_evidence(record).files["trial/config.json"])["cleaned"] is True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=4,
)
JUDGED = [MANIFEST, CALLS, "trial/result.json", "trial/config.json", "trial/agent/trajectory.json", "trial/verifier/reward.txt"]


def judged(folder: Path) -> str:
    """What comes of the record: the sentence that refuses it, or its verdict. A traceback fails the test, as does a check that breaks."""
    try:
        evidence = read_evidence(folder)
    except EvidenceError as error:
        return str(error)
    rollout = Rollout.of(evidence, CATALOGUE)
    assert [judgement.reason for judgement in rollout.judgements if judgement.result == "error"] == []
    verdicts = seam_verdicts([rollout], CATALOGUE)
    report = build_report(verdicts, catalogue=CATALOGUE, run_id="r", folders={evidence.manifest.attempt_id: folder})
    assert json.loads(report.model_dump_json().encode())
    return report.seams[0].status


@pytest.fixture(scope="module", params=["pi", "claude-code", "codex", "gemini-cli"])
def scratch(request, tmp_path_factory):
    """A copy of a record of each dialect, to be changed and mended again."""
    folder = tmp_path_factory.mktemp("mutated") / "1"
    shutil.copytree(resource("fixtures", "evidence", request.param, "local", "scripted", "parallel_calls", "1"), folder)
    (folder / SEAL).unlink(missing_ok=True)  # so that the checks see what the seal would refuse
    return folder


@contextlib.contextmanager
def changed(path: Path, content: bytes) -> Iterator[None]:
    """The file with another content, for a while."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_no_change_of_the_bytes_of_a_record_ends_in_a_traceback_or_breaks_a_check(scratch, data):
    path = scratch / data.draw(st.sampled_from(JUDGED))
    content = bytearray(path.read_bytes())
    start = data.draw(st.integers(0, len(content)))
    content[start : start + data.draw(st.integers(0, 64))] = data.draw(st.binary(max_size=16))
    with changed(path, bytes(content)):
        assert judged(scratch).isprintable()


def replaced(document: object, data: st.DataObject) -> object:
    """The document with one of its values, at any depth, replaced by any other."""
    if data.draw(st.integers(0, 3)) and isinstance(document, dict | list) and document:
        key = data.draw(st.sampled_from(sorted(document) if isinstance(document, dict) else range(len(document))))
        document[key] = replaced(document[key], data)
        return document
    return data.draw(JSON)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_no_other_value_in_a_record_ends_in_a_traceback_or_breaks_a_check(scratch, data):
    path = scratch / data.draw(st.sampled_from([name for name in JUDGED if name.endswith("json")]))
    text = path.read_text(encoding="utf-8")
    written = text.rstrip("\n").split("\n") if path.name == CALLS else [text]
    at = data.draw(st.integers(0, len(written) - 1))
    written[at] = json.dumps(replaced(json.loads(written[at]), data))
    with changed(path, "\n".join(written).encode()):
        assert judged(scratch).isprintable()
