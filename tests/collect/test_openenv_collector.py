"""The adapter of openenv's collector and its program, with a stand-in for openenv that has the same doors."""

from __future__ import annotations

import math
import sys

import pytest

from pytest_harness.collect.adapter import Outcome, Stop, Stored
from pytest_harness.runtimes.openenv_collector import OpenEnvCollector, Refused
from pytest_harness.runtimes.worker import Worker
from pytest_harness.wire.outcome import NotExercised

HARNESS = """
class Plain:
    def __init__(self, **fields):
        self.__dict__.update(fields)

class ModelStepResult(Plain): pass
class VerifyResult(Plain): pass
class ResourceSession: pass
class ResourceSessionFactory: pass

class MCPHarnessAdapter:
    def run_white_box(self, model_step, session):
        return model_step(session.initial_messages(), session.list_tools(), {}).response.content
"""
CLIENT = """
class LLMResponse:
    def __init__(self, content):
        self.content = content
"""
COLLECT = """
import json
from types import SimpleNamespace

class RolloutSerializer:
    def __init__(self, folder):
        self.path = folder / "results.jsonl"

class CollectRunner:
    def __init__(self, *, session_factory, harness_adapter, serializer, tasks):
        self.factory, self.adapter, self.serializer = session_factory, harness_adapter, serializer
        self.tasks, self.once = tasks, iter(tasks) is tasks

    def run(self, *, model_step, num_episodes, should_keep):
        from rich.progress import Progress
        if num_episodes == 99:
            raise ValueError("too many")
        print("what a library says")
        bar = Progress(disable=True)
        shown = bar.add_task("", total=None, avg_reward=0.0)
        ids = []
        for number, task in zip(range(num_episodes), self.tasks):
            name = f"ep-{number}-{'once' if self.once else 'list'}"
            session = self.factory.create(task=task, episode_id=name)
            try:
                text = self.adapter.run_white_box(model_step, session)
            except OSError:
                continue
            result = session.verify(transcript=[], final_state={})
            if should_keep(None):
                line = {"episode_id": name, "task": task, "reward": result.env_reward, "artifacts": result.artifacts, "text": text}
                with self.serializer.path.open("a") as file:
                    file.write(json.dumps(line) + "\\n")
                ids.append(name)
                bar.update(shown, avg_reward=result.env_reward)
        return SimpleNamespace(episode_ids=ids, avg_reward=0.25)
"""
FILES = {"core/harness/__init__.py": HARNESS, "core/harness/collect.py": COLLECT, "core/llm_client.py": CLIENT, "core/__init__.py": ""}


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    """With a Python that has the stand-in."""
    folder = tmp_path_factory.mktemp("openenv")
    for name, text in ({"__init__.py": ""} | FILES).items():
        path = folder / "openenv" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    worker = Worker(str(python), "openenv_collect.py", folder)
    yield OpenEnvCollector(worker)
    worker.stop()


def played(task, episode_id):
    return Outcome({"a": 0.5, "b": 1.0}.get(task), f"mark of {task}", keep=task != "c")


def test_what_was_played_is_returned_and_read_back(collector, tmp_path):
    collected = collector.job(["a", "b", "c"], tmp_path).run(3, played)
    assert (collected.episode_ids, collected.mean, collected.running) == (("ep-0-list", "ep-1-list"), 0.25, (0.5, 1.0))
    assert collector.stored(tmp_path) == [
        Stored("ep-0-list", "a", 0.5, "mark of a"),
        Stored("ep-1-list", "b", 1.0, "mark of b"),
    ]


def test_tasks_that_can_be_read_once_are_given_as_such(collector, tmp_path):
    assert collector.job(iter(["a"]), tmp_path).run(1, played).episode_ids == ("ep-0-once",)


def test_a_stop_is_let_out_and_the_process_lives_on(collector, tmp_path):
    def stopping(task, episode_id):
        if task == "b":
            raise Stop
        return played(task, episode_id)

    with pytest.raises(Stop):
        collector.job(["a", "b"], tmp_path).run(2, stopping)
    assert [stored.task for stored in collector.stored(tmp_path)] == ["a"]
    assert collector.job(["a"], tmp_path).run(1, played).episode_ids == ("ep-0-list",)


def test_what_an_episode_raises_is_raised_in_the_runner(collector, tmp_path):
    def failing(task, episode_id):
        if task == "a":
            raise OSError("scripted")
        return played(task, episode_id)

    assert collector.job(["a", "b"], tmp_path).run(2, failing).episode_ids == ("ep-1-list",)


def test_what_the_runner_raises_is_its_refusal(collector, tmp_path):
    with pytest.raises(Refused, match="ValueError: too many"):
        collector.job(["a"], tmp_path).run(99, played)


def test_a_reward_that_is_no_number_is_passed_on_as_it_is(collector, tmp_path):
    collector.job(["a"], tmp_path).run(1, lambda task, episode_id: Outcome(math.nan, "mark"))
    assert math.isnan(collector.stored(tmp_path)[0].reward)


def test_lines_that_cannot_be_read_are_left_out(collector, tmp_path):
    collector.ledger(tmp_path).write_bytes(b'\xff\n[]\n{"episode_id": 1}\n')
    assert collector.stored(tmp_path) == []


def test_it_has_one_worker(collector, tmp_path):
    with pytest.raises(NotExercised, match="one episode at a time"):
        collector.job(["a"], tmp_path).run(1, played, workers=2)
