"""Trajectories of every version, good and bad: Harbor's own model takes them all, and the checks tell which are which."""

import json
import tomllib
from dataclasses import replace

import pytest
from harbor.models.trajectories import Trajectory

from pytest_harness.contract import judge
from pytest_harness.requirements import load_catalogue
from pytest_harness.resources import resource

ROOT = resource("fixtures", "trajectories")
GOOD = sorted(folder.name for folder in (ROOT / "good").iterdir())
INDEX = tomllib.loads((ROOT / "bad" / "index.toml").read_text(encoding="utf-8"))
CATALOGUE = load_catalogue()


def broken(healthy, files):
    """The requirements on trajectories that do not hold in a trial with these files beside each other and without a call."""
    files = {f"trial/agent/{name}": path.read_text(encoding="utf-8") for name, path in files.items()}
    judgements = [each for each in judge(replace(healthy.pi(), calls=(), files=files), CATALOGUE) if each.requirement.family == "ATF"]
    assert [each.reason for each in judgements if each.result == "error"] == []
    return {each.requirement.id for each in judgements if each.result == "failed"}


def test_there_is_a_good_trajectory_of_every_version():
    assert [f"v1.{minor}" for minor in range(9)] == GOOD


@pytest.mark.parametrize("version", GOOD)
def test_a_good_trajectory_is_taken_by_harbor_and_by_us(healthy, version):
    files = {path.name: path for path in (ROOT / "good" / version).iterdir()}
    for path in files.values():
        document = json.loads(path.read_text(encoding="utf-8"))
        assert document["schema_version"] == f"ATIF-{version}"
        assert Trajectory.model_validate(document).steps
    assert broken(healthy, files) == set()


def test_every_bad_trajectory_is_in_the_index_and_there_are_forty_at_least():
    files = {path.stem for path in (ROOT / "bad").glob("*.json")}
    assert files == set(INDEX)
    assert len(files) >= 40


@pytest.mark.parametrize("name", INDEX)
def test_a_malformation_that_harbor_takes_is_found(healthy, name):
    path = ROOT / "bad" / f"{name}.json"
    assert Trajectory.model_validate_json(path.read_text(encoding="utf-8")).steps
    assert broken(healthy, {"trajectory.json": path}) == set(INDEX[name]["requirements"])
