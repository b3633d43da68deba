"""``harness-conformance rollout``: real rollouts of a harness of one's own, collected and resumed; bad input is one sentence."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_harness import cli
from pytest_harness.collect import LEDGER, CollectError, Episode, Ledger, Line
from pytest_harness.collect.command import Asked, specs_of
from pytest_harness.collect.rollouts import Kind, Rollouts, _run, check_folder, result_of
from pytest_harness.engines.scripted import Fault, ScriptedEngine
from pytest_harness.evidence import find_evidence, read_evidence, write_evidence
from pytest_harness.rollouts import rollout as rollout_module
from pytest_harness.rollouts import room
from pytest_harness.rollouts.engines import SharedEngine, attached
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioError, ScenarioTable
from pytest_harness.seams import SeamTable
from pytest_harness.serving import BackgroundServer

SEAMS = Path(__file__).resolve().parents[2] / "examples" / "own-harness" / "seams"


def rollout(*arguments):
    command = [sys.executable, "-m", "pytest_harness.cli", "rollout", f"--seams={SEAMS}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"NO_COLOR": "1"})


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """A collection of four real episodes, and what the command said."""
    out = tmp_path_factory.mktemp("rollout") / "out"
    return out, rollout("--harness=tiny-agent", "--task=edit_file", "--task=no_verdict", "-n", 2, "--parallel", 2, "--out", out)


def test_the_ledger_has_the_episodes_whose_evidence_is_there(collected):
    out, ended = collected
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = Ledger(out).read()
    assert {line.episode: line.mark for line in lines} == {
        folder.relative_to(out).as_posix(): read_evidence(folder).manifest.attempt_id for folder in find_evidence(out)
    }
    assert {(line.task, line.attempt): (line.state, line.reward) for line in lines} == {
        ("tiny-agent/local/scripted/edit_file", 1): ("graded", 1.0),
        ("tiny-agent/local/scripted/edit_file", 2): ("graded", 1.0),
        ("tiny-agent/local/scripted/no_verdict", 1): ("ungraded", None),
        ("tiny-agent/local/scripted/no_verdict", 2): ("ungraded", None),
    }


def test_the_rows_of_what_was_collected_are_exported(collected, tmp_path):
    out, _ = collected
    again = ("--harness=tiny-agent", "--task=edit_file", "--task=no_verdict", "-n", 2, "--out", out, "--export")
    ended = rollout(*again, tmp_path / "rows.jsonl", "--rehearsal", "--policy-version", "step 7")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["episode"] for row in rows} == {line.mark for line in Ledger(out).read()}
    assert {(row["scenario"], row["reward"]) for row in rows} == {("edit_file", 1.0), ("no_verdict", None)}
    assert {row["policy_version"] for row in rows} == {"step 7"}
    ended = rollout(*again, tmp_path / "rows.csv")
    assert ended.returncode == cli.USAGE_ERROR
    assert "must end in .jsonl or .parquet" in ended.stderr


def test_each_episode_is_a_plain_line_where_there_is_no_terminal(collected):
    said = collected[1].stdout.splitlines()
    assert [line.partition(" ")[0] for line in said[-6:-2]] == ["1/4", "2/4", "3/4", "4/4"]
    assert said[-2] == "4 episodes: mean reward 1 of 2 graded; 2 ungraded, 0 invalid, 0 dropped"
    assert collected[1].stderr == ""


def test_the_same_command_again_runs_only_what_is_gone(collected):
    out, _ = collected
    before = (out / LEDGER).read_text().splitlines()
    gone = out / "tiny-agent" / "local" / "scripted" / "edit_file" / "2"
    (gone / "manifest.json").unlink()
    ended = rollout("--harness=tiny-agent", "--task=edit_file", "--task=no_verdict", "-n", 2, "--out", out)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "edit_file/2 has a line and is not on disk; it is run again" in ended.stdout
    after = (out / LEDGER).read_text().splitlines()
    assert after[:-1] == [line for line in before if json.loads(line)["episode"] != "tiny-agent/local/scripted/edit_file/2"]
    assert read_evidence(gone).manifest.attempt_id == json.loads(after[-1])["mark"]


def one_sentence_says(said, capsys):
    """Run the command, which refuses its input."""
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr()
    assert ended.value.code == cli.USAGE_ERROR
    assert said in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no harness is named; name one with --harness=NAME"),
        (("--harness=tiny-agnt",), "did you mean tiny-agent"),
        (("--harness=tiny-agent", "--task=edit_fil"), "did you mean edit_file"),
        (("--harness=tiny-agent", "--engine=gpu"), "--engine gpu is not known to this version; known: scripted, vllm"),
        (("--harness=tiny-agent", "--engine=vllm", "--llm-url=http://127.0.0.1:9/v1"), "--llm-url names another; choose one of the two"),
        (("--harness=tiny-agent", "--model=m"), "--model says something of the engine that --llm-url names, and none is named"),
        (("--harness=tiny-agent", "--out", ""), "an empty path names no folder"),
        (("--harness=tiny-agent", "--out", "o\udcff"), "is no UTF-8 text; name another folder"),
        (("--harness=tiny-agent", "-n", "0"), "-n 0: a number from 1 to 1000000 is needed"),
        (("--harness=tiny-agent", "--parallel", "-3"), "--parallel -3: a number from 1 to 256 is needed"),
        (("--harness=tiny-agent", "--ray=local", "--parallel", "5000"), "--parallel 5000: a number from 1 to 4096 is needed"),
        (("--harness=tiny-agent", "--ray=auto", "--engine=vllm"), "cannot reach; start one and name it with --llm-url"),
        (("--harness=tiny-agent", "--ray=here"), "--ray here is no address of a cluster; write auto, local, HOST:PORT or ray://HOST:PORT"),
        (("--harness=tiny-agent", "--ray=ray://127.0.0.1:1"), "--ray ray://127.0.0.1:1: nothing answers there (Connection refused)"),
        (("--harness=tiny-agent", "--evidence-to=s3://b"), "no cluster is named; harness-conformance push sends what is in --out"),
        (("--harness=tiny-agent", "--ray=auto", "--evidence-to=s3x://b"), "--evidence-to s3x://b: fsspec knows no s3x://; name a folder"),
        (("--harness=tiny-agent", "--tries", "0"), "--tries 0: a number from 1 to 100 is needed"),
        (("--harness=tiny-agent", "--out", __file__), "cannot be written (File exists); name a folder of yours with --out"),
    ],
)
def test_bad_input_of_a_rollout_is_one_sentence(monkeypatch, capsys, arguments, said):
    monkeypatch.setattr(sys, "argv", ["harness-conformance", "rollout", f"--seams={SEAMS}", *arguments])
    one_sentence_says(said, capsys)


@pytest.mark.parametrize(
    ("module", "arguments", "said"),
    [
        (
            "ray",
            ("--ray=auto",),
            "Ray is not here (import of ray halted; None in sys.modules); install harness-conformance[ray]",
        ),
        ("fsspec", ("--ray=auto", "--evidence-to=there"), "install harness-conformance[push], or that package, here and on every node"),
    ],
)
def test_an_extra_that_is_missing_is_named(monkeypatch, capsys, module, arguments, said):
    monkeypatch.setitem(sys.modules, module, None)
    for name in ("pytest_harness.filesystems", "pytest_harness.collect.landing"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "argv", ["harness-conformance", "rollout", f"--seams={SEAMS}", "--harness=tiny-agent", *arguments])
    one_sentence_says(said, capsys)


def kind(installed=None):
    spec = RolloutSpec(SeamTable.load(SEAMS)["tiny-agent"], "local", "scripted", ScenarioTable.load()["edit_file"])
    return Kind(spec, installed or SimpleNamespace(version="1", digest="d"))


def test_a_task_is_another_when_the_harness_the_script_or_a_file_is(tmp_path):
    one = kind()
    (tmp_path / "instruction.md").write_text("do it")
    other_scenario = dataclasses.replace(one.spec, scenario=dataclasses.replace(one.spec.scenario, task=tmp_path))
    longer = dataclasses.replace(one.spec, scenario=dataclasses.replace(one.spec.scenario, steps=one.spec.scenario.steps[1:]))
    limited = dataclasses.replace(one.spec, step_limit=3)
    others = [kind(SimpleNamespace(version="2", digest="d")), kind(SimpleNamespace(version="1", digest="e"))]
    others += [dataclasses.replace(one, engine=SharedEngine("u", "k", "m", "l", {"vllm": "1"}, {"model": digest})) for digest in "ab"]
    others += [Kind(spec, one.installed) for spec in (other_scenario, longer, limited)]
    assert kind().task == one.task
    assert {other.task.name for other in others} == {one.task.name}
    assert len({other.task.digest for other in [one, *others]}) == 8


def test_an_engine_that_returns_less_than_it_did_makes_no_episode(tmp_path):
    scripted = ScriptedEngine(None, model="served")
    with BackgroundServer(scripted) as server:
        one = dataclasses.replace(kind(), engine=attached(server.listen().url))
        scripted.faults = [Fault("null_ids")]
        with Rollouts([one], tmp_path, run_id="run", requirements="2026.11") as rollouts, pytest.raises(CollectError) as refused:
            rollouts(Episode(one.task, 1))
    assert "returns no prompt_token_ids and no token_ids" in str(refused.value)
    assert "start it as it was, and the same command goes on from here" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_an_episode_waits_until_there_is_memory_for_it(tmp_path, monkeypatch, healthy):
    """The other holds more than any machine has; it gives it back when it is waited for, and not before."""
    one, others, seen = kind(), ExitStack(), []
    others.enter_context(room.room(room.tickets(tmp_path), "other", 1 << 40))
    monkeypatch.setattr(room, "_wait_for_one", lambda _: others.close())

    def ran(spec, *_, evidence_dir, **__):
        seen.extend((path.name, path.read_text()) for path in room.tickets(evidence_dir).iterdir() if path.name != ".lock")
        evidence = healthy.pi()
        return write_evidence(evidence_dir, evidence.manifest, evidence.calls, {})

    monkeypatch.setattr(rollout_module, "run_rollout", ran)
    heard = signal.getsignal(signal.SIGINT)
    try:
        _run(one.spec, one, tmp_path, "r", "2026.12")
    finally:
        signal.signal(signal.SIGINT, heard)
    assert seen == [("tiny-agent-in-local-edit_file", str(one.spec.seam.limits.memory_mb))]
    assert [path.name for path in room.tickets(tmp_path).iterdir()] == [".lock"]


class Deadly:
    """Ends the process that is given it."""

    version = digest = "deadly"

    def __reduce__(self):
        return os._exit, (1,)


def test_a_process_that_dies_is_one_failed_try_and_the_next_one_has_a_new_process(tmp_path):
    deadly = kind(Deadly())
    with Rollouts([deadly], tmp_path, run_id="r", requirements="2026.12") as rollouts:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="the process of the rollout died"):
                rollouts(Episode(deadly.task, 1))


class Hanging:
    """Tells a FIFO that it is there, and holds the process that is given it for ever."""

    version = digest = "hanging"

    def __init__(self, fifo):
        self.fifo = str(fifo)

    def __reduce__(self):
        return exec, (f"import signal; open({self.fifo!r}, 'w').close(); signal.pause()",)


def test_a_process_that_hangs_ends_with_the_second_ctrl_c(tmp_path):
    os.mkfifo(tmp_path / "began")
    hanging = kind(Hanging(tmp_path / "began"))
    with ThreadPoolExecutor(1) as thread:
        rollouts = Rollouts([hanging], tmp_path, run_id="r", requirements="2026.12").__enter__()
        episode = thread.submit(rollouts, Episode(hanging.task, 1))
        (tmp_path / "began").read_bytes()
        rollouts.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        with pytest.raises(RuntimeError, match="the process of the rollout died"):
            episode.result()


class Pressed:
    """Presses Ctrl-C in the process that is given it, before that has a rollout to leave it to."""

    version = digest = "pressed"

    def __reduce__(self):
        return exec, ("import os, signal; os.kill(os.getpid(), signal.SIGINT)",)


def test_a_process_that_has_no_rollout_yet_hears_no_ctrl_c(tmp_path):
    pressed = kind(Pressed())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with Rollouts([pressed], tmp_path, run_id="r", requirements="2026.12") as rollouts, pytest.raises(AttributeError, match="NoneType"):
        rollouts(Episode(pressed.task, 1))  # it came as far as the rollout, which has no harness
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_an_episode_is_on_disk_when_the_evidence_of_that_run_is(tmp_path, healthy):
    evidence = healthy.pi()
    folder = write_evidence(tmp_path, evidence.manifest, evidence.calls, {})
    name = folder.relative_to(tmp_path).as_posix()
    line = Line(episode=name, task="t", digest="d", attempt=1, state="ungraded", reward=None, mark=evidence.manifest.attempt_id)
    with Rollouts([], tmp_path, run_id="r", requirements="2026.12") as rollouts:
        assert rollouts.on_disk(line)
        assert not rollouts.on_disk(line.model_copy(update={"mark": "another"}))
        assert not rollouts.on_disk(line.model_copy(update={"episode": "elsewhere"}))
        (folder / "manifest.json").unlink()
        assert not rollouts.on_disk(line)


@pytest.mark.parametrize(("name", "text"), [("manifest.json", "{}"), ("calls.ndjson", "["), ("calls.ndjson", None)])
def test_evidence_that_is_there_and_damaged_is_neither_done_nor_missing(tmp_path, healthy, name, text):
    evidence = healthy.pi()
    folder = write_evidence(tmp_path, evidence.manifest, evidence.calls, {})
    (folder / name).unlink()
    if text is None:
        os.mkfifo(folder / name)
    else:
        (folder / name).write_text(text)
    episode = folder.relative_to(tmp_path).as_posix()
    line = Line(episode=episode, task="t", digest="d", attempt=1, state="ungraded", reward=None, mark=evidence.manifest.attempt_id)
    with (
        Rollouts([], tmp_path, run_id="r", requirements="2026.12") as rollouts,
        pytest.raises(CollectError, match="is damaged; restore it, or remove it to run its episode again") as refused,
    ):
        rollouts.on_disk(line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", [".workers.log", ".running", ".locks"])
def test_a_fifo_where_a_rollout_would_write_is_refused_before_anything_starts(tmp_path, name):
    check_folder(tmp_path / "empty")
    os.mkfifo(tmp_path / name)
    with pytest.raises(
        CollectError, match=rf"{name}\S* (is no .*; remove it|cannot be made .*; remove what is there) or name another --out"
    ):
        check_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("instruction.md", None, "instruction.md is missing"),
        ("instruction.md", b"\xff", "instruction.md is not UTF-8 text"),
        ("task.toml", b"[", "task.toml is not TOML"),
        ("task.toml", b"agent = 3", "task.toml is no task for Harbor (agent: "),
    ],
)
def test_a_task_that_cannot_be_run_is_refused_before_anything_starts(tmp_path, name, content, said):
    bundled = ScenarioTable.load()["edit_file"]
    task = tmp_path / "tasks" / "mine"
    shutil.copytree(bundled.task, task)
    scenario = 'title = "t"\ntask = "tasks/mine"\nreward = 1\n[[steps]]\ntext = "done"\n'
    (tmp_path / "mine.toml").write_text(scenario)
    asked = Asked(("tiny-agent",), ("mine",), seam_folders=(SEAMS,), scenario_folders=(tmp_path,))
    assert len(specs_of(asked)) == 1
    (task / name).unlink() if content is None else (task / name).write_bytes(content)
    with pytest.raises((CollectError, ScenarioError)) as refused:
        specs_of(asked)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_graded_episode_counts(healthy):
    result = result_of(healthy.pi())
    assert (result.state, result.reward, result.failed) == ("graded", 1.0, False)
    assert result.facts == {"calls": len(healthy.pi().calls), "truncated": 0}


def test_an_episode_without_a_verdict_that_foresees_none_is_ungraded(healthy):
    result = result_of(healthy.pi(graded=False))
    assert (result.state, result.reward, result.failed) == ("ungraded", None, False)


def test_a_reward_that_harbor_does_not_call_valid_is_kept_and_does_not_count(healthy):
    evidence = healthy.pi()
    document = json.loads(evidence.files["trial/result.json"]) | {"reward_valid": False}
    result = result_of(dataclasses.replace(evidence, files={**evidence.files, "trial/result.json": json.dumps(document)}))
    assert (result.state, result.reward, result.failed) == ("invalid", 1.0, False)


def test_an_episode_without_a_call_failed_in_its_surroundings(healthy):
    result = result_of(dataclasses.replace(healthy.pi(), calls=()))
    assert result.failed
    assert "no call reached the proxy" in result.reason


def test_replies_that_were_cut_off_are_counted(healthy):
    evidence = healthy.pi()
    cut = [
        call.model_copy(update={"samples": tuple(s.model_copy(update={"finish_reason": "length"}) for s in call.samples)})
        for call in evidence.calls
    ]
    assert result_of(dataclasses.replace(evidence, calls=tuple(cut))).facts["truncated"] == len(cut)
