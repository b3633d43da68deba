"""A search over releases of a toy harness, one of which began to give the results of its calls in the wrong order, with real rollouts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_harness.bisection import BisectError
from pytest_harness.bisection.command import Asked, Bisection, between, releases_from
from pytest_harness.bisection.judging import Judge
from pytest_harness.provision import ProvisionError
from pytest_harness.requirements import load_catalogue
from pytest_harness.rollouts.pool import RolloutPool
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import SeamTable, read_seams

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "own-harness"
RELEASES = tuple(f"0.{number}.0" for number in range(8))
BROKEN_SINCE = "0.5.0"
ABSENT = "0.3.0"
IN_ORDER = "text in zip(calls, results)]\n        if not calls"
REQUIREMENT = "PAR-003"


@pytest.fixture(scope="module")
def bisection(tmp_path_factory):
    """``bisection(good, bad)``: a search that has not begun, and the list of what it tells."""
    folder = tmp_path_factory.mktemp("releases")
    program = (EXAMPLE / "bin" / "tiny-agent").read_text()
    assert IN_ORDER in program
    for version in RELEASES:
        path = folder / version / "bin" / "tiny-agent"
        path.parent.mkdir(parents=True)
        text = program.replace('VERSION = "0.1.0"', f'VERSION = "{version}"')
        path.write_text(text if version < BROKEN_SINCE else text.replace(IN_ORDER, IN_ORDER.replace(")]", ")][::-1]")))
        path.chmod(0o755)
    (row,) = read_seams(EXAMPLE / "seams" / "tiny-agent.toml")
    catalogue, scenarios = load_catalogue(), ScenarioTable.load()

    def seam_of(version):
        return row.model_copy(update={"install": row.install.model_copy(update={"path": str(folder / version)})})

    def roll_out(version, spec):
        if version == ABSENT:
            raise ProvisionError("there is no such release any more")
        return RolloutPool(folder / "evidence" / version, run_id="bisect", requirements=catalogue.version).evidence(spec)

    def made(good, bad, *, of=("edit_file", "parallel_calls")):
        told = []
        asked = Asked("tiny-agent", good, bad, REQUIREMENT)
        judge = Judge(catalogue[REQUIREMENT], "local", "scripted", seam_of, roll_out)
        chosen = [scenarios[name] for name in of]
        return Bisection(asked, catalogue[REQUIREMENT], chosen, between(RELEASES, good, bad, "it"), judge, told.append), told

    return made


def test_the_release_that_broke_it_is_found_with_the_evidence_and_the_command_that_shows_it(bisection, run_pytest, tmp_path):
    search, told = bisection("0.0.0", "0.7.0")
    answer = search.run()
    assert (answer.found.first_bad, answer.found.last_good) == (BROKEN_SINCE, "0.4.0")
    assert answer.scenario == "parallel_calls"
    assert {(each.version, each.said) for each in told} >= {(BROKEN_SINCE, "bad"), ("0.4.0", "good"), (ABSENT, "skip")}
    assert {each.scenario for each in told if each.version not in {"0.0.0", "0.7.0"}} == {"parallel_calls"}
    assert all(each.really == each.version for each in told if each.folder is not None)
    first, *lines = answer.lines("tiny-agent")
    assert first.startswith(f"tiny-agent {BROKEN_SINCE} is the first release that breaks PAR-003 ")
    good, bad = (line.split("pytest ", 1)[1].split() for line in lines if "pytest --replay" in line)
    assert "1 passed" in run_pytest(tmp_path, *good).stdout
    assert "1 SHOULDs not met" in run_pytest(tmp_path, *bad).stdout


def test_a_bad_end_that_is_not_bad_is_one_sentence_and_says_what_was_seen(bisection):
    search, _ = bisection("0.0.0", "0.4.0")
    with pytest.raises(BisectError, match=r"tiny-agent 0\.4\.0 does not break PAR-003 .*parallel_calls: met") as error:
        search.run()
    assert "\n" not in str(error.value)


def test_a_good_end_that_is_not_good_is_one_sentence(bisection):
    search, _ = bisection("0.6.0", "0.7.0", of=["parallel_calls"])
    with pytest.raises(BisectError, match=r"tiny-agent 0\.6\.0 does not meet PAR-003 .* name an earlier release"):
        search.run()


def test_skipped_releases_that_hide_the_first_bad_one_are_named(bisection):
    search, _ = bisection("0.4.0", "0.6.0", of=["parallel_calls"])
    answer = search.run()
    hidden = answer.__class__(answer.found.__class__("0.4.0", ("0.5.0", "0.6.0")), answer.scenario, answer.tried, answer.requirement)
    assert hidden.lines("it")[0].endswith("; 0.5.0 between them could not be judged and may have broken it already")


@pytest.mark.parametrize(
    ("good", "bad", "sentence"),
    [
        ("0.9.0", "0.7.0", "it has no release 0.9.0; near it are 0."),
        ("0.7.0", "0.1.0", "0.7.0 is no earlier release of it than 0.1.0"),
        ("0.1.0", "0.1.0", "0.1.0 is no earlier release of it than 0.1.0"),
    ],
)
def test_ends_that_are_none_are_one_sentence(good, bad, sentence):
    with pytest.raises(BisectError) as error:
        between(RELEASES, good, bad, "it")
    assert str(error.value).startswith(sentence)


def test_releases_before_a_release_count_only_if_an_end_is_one(monkeypatch):
    def listed(seam, say, *, early):
        return ("1.0", "1.1a1", "1.1", "1.2") if early else ("1.0", "1.1", "1.2")

    monkeypatch.setattr("pytest_harness.bisection.command.releases_of", lambda seam, say, early=False: listed(seam, say, early=early))
    pi = SeamTable.load()["pi"]
    assert releases_from(pi, "1.0", "1.2", print) == ("1.0", "1.1", "1.2")
    assert releases_from(pi, "1.1a1", "1.2", print) == ("1.1a1", "1.1", "1.2")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["pi", "1.0.0", "1.6.0", "--requirement=PAR-999"], "there is no requirement PAR-999 of seams"),
        (["nonesuch", "1", "2", "--requirement=PAR-003"], "there is no harness 'nonesuch'"),
        (["pi", "../x", "1.6.0", "--requirement=PAR-003"], "'../x' is no version of pi"),
        (["pi", "1.0.0", "1.6.0", "--requirement=PAR-003", "--engine=brain"], "--engine brain is not known"),
        (["pi", "1.0.0", "1.6.0", "--requirement=PAR-003", "--scenario=edit_fiel"], "did you mean edit_file"),
        (["pi", "1.5.0", "1.6.0", "--requirement=PAR-003", "--evidence-dir=/proc/x"], "--evidence-dir /proc/x/pi cannot be written"),
        (["tiny-agent", "1", "2", "--requirement=PAR-003", f"--seams={EXAMPLE / 'seams'}"], "is installed already"),
    ],
)
def test_wrong_input_is_one_sentence(tmp_path, arguments, sentence):
    run = [sys.executable, "-m", "pytest_harness.cli", "bisect", *arguments]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stdout + done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
