"""Episodes on the nodes of a cluster: what travels there and back, without Ray. On a real cluster: ``tests/cluster/on_ray.py``."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
from pathlib import Path

import pytest

from pytest_harness import __version__
from pytest_harness.cluster import called
from pytest_harness.collect import CollectError, Episode, Line
from pytest_harness.collect.landing import Landing
from pytest_harness.collect.on_ray import NodeError, RolloutsOnRay, memory_of
from pytest_harness.collect.rollouts import Kind
from pytest_harness.evidence import find_evidence, read_evidence
from pytest_harness.provision import provision
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import SeamTable

SEAMS = Path(__file__).resolve().parents[2] / "examples" / "own-harness" / "seams"


class Here:
    """A cluster whose one node is this process. All that travels is pickled."""

    def __init__(self):
        self.memory = []

    def share(self, value):
        return pickle.dumps(value)

    def run(self, function, *arguments, shared=(), memory=0):
        self.memory.append(memory)
        return pickle.loads(pickle.dumps(called(__version__, pickle.dumps((function, arguments)), *map(pickle.loads, shared))))

    def give_up(self):
        pass


@pytest.fixture
def kind(tmp_path):
    """Of a scenario of one's own, whose task is in a folder."""
    bundled = ScenarioTable.load()["edit_file"]
    shutil.copytree(bundled.task, tmp_path / "mine" / "edit")
    seam = SeamTable.load(SEAMS)["tiny-agent"]
    spec = RolloutSpec(seam, "local", "scripted", dataclasses.replace(bundled, task=tmp_path / "mine" / "edit"))
    return Kind(spec, provision(seam))


def line(episode, result):
    return Line(
        episode=episode.id, task=episode.task.name, digest="d", attempt=1, state=result.state, reward=result.reward, mark=result.mark
    )


def test_a_node_needs_no_file_of_this_machine_and_its_evidence_comes_back(kind, tmp_path):
    out, cluster, episode = tmp_path / "out", Here(), Episode(kind.task, 1)
    with RolloutsOnRay([kind], out, cluster, run_id="r", requirements="2026.12") as rollouts:
        shutil.rmtree(tmp_path / "mine")
        result = rollouts(episode)
        assert (result.state, result.reward) == ("graded", 1.0)
        assert rollouts.on_disk(line(episode, result))
    assert read_evidence(out / episode.id).manifest.attempt_id == result.mark
    assert [path.name for path in (out / episode.id).parent.iterdir()] == ["1"]
    assert cluster.memory == [memory_of(kind)] == [kind.spec.seam.limits.memory_mb << 20]


def test_evidence_that_is_to_go_elsewhere_is_there_and_not_here(kind, tmp_path):
    out, episode = tmp_path / "out", Episode(kind.task, 2)
    landing = Landing(str(tmp_path / "there"))
    with RolloutsOnRay([kind], out, Here(), run_id="r", requirements="2026.12", landing=landing) as rollouts:
        result = rollouts(episode)
        assert rollouts.on_disk(line(episode, result))
    assert [folder.relative_to(tmp_path / "there").as_posix() for folder in find_evidence(tmp_path / "there")] == [episode.id]
    assert not out.exists()


class Elsewhere(Landing):
    """A place that looks another one from here."""

    def mark(self, episode):
        return None


def test_evidence_that_a_node_brought_where_nobody_else_sees_it_ends_the_collection(kind, tmp_path):
    landing = Elsewhere(str(tmp_path / "there"))
    with (
        RolloutsOnRay([kind], tmp_path / "out", Here(), run_id="r", requirements="2026.12", landing=landing) as rollouts,
        pytest.raises(CollectError, match="and it is not there as seen from here; name a place that every node reaches, and this machine"),
    ):
        rollouts(Episode(kind.task, 1))


def test_another_harness_on_the_node_than_here_is_refused_by_name(kind, tmp_path):
    other = dataclasses.replace(kind, installed=dataclasses.replace(kind.installed, digest="0" * 64))
    with (
        RolloutsOnRay([other], tmp_path, Here(), run_id="r", requirements="2026.12") as rollouts,
        pytest.raises(
            NodeError, match=r"tiny-agent \S+ is not the one that the command has .*not 000000000000.*; install the same"
        ) as refused,
    ):
        rollouts(Episode(other.task, 1))
    assert "\n" not in str(refused.value)
    assert list(tmp_path.glob("tiny-agent")) == []


def test_what_goes_wrong_on_a_node_travels_back_whatever_it_is_made_of(kind, tmp_path, monkeypatch):
    class OddError(Exception):
        def __reduce__(self):
            raise TypeError("it cannot be pickled")

    def odd(*_, **__):
        raise OddError("no room")

    monkeypatch.setattr("pytest_harness.rollouts.rollout.run_rollout", odd)
    with (
        RolloutsOnRay([kind], tmp_path / "out", Here(), run_id="r", requirements="2026.12") as rollouts,
        pytest.raises(NodeError, match=r"OddError: no room \(on \S+\)"),
    ):
        rollouts(Episode(kind.task, 1))


def test_a_node_with_another_version_of_this_package_says_so_before_it_reads_anything():
    with pytest.raises(RuntimeError, match=f"has harness-conformance {__version__} and is asked by 0.0.1; install the same on every node"):
        called("0.0.1", b"no pickle")
