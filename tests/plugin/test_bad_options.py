"""What cannot be run is said in one sentence, with pytest's exit code for wrong usage, before anything starts."""

from __future__ import annotations

import pytest

import pytest_harness.session  # noqa: F401 (what is imported here is not imported once more by each run in this process)

OPTIONS = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:faulthandler", "-p", "no:asyncio", "--import-mode=importlib")

FAR = "tests.remote.far_sandbox:FarSandbox"
OF_ROLLOUTS = [
    *(["--image=i"], ["--bake"], ["--public-url=https://a"], ["--public-port=1"], ["--tunnel=t"], ["--engine=vllm"]),
    *(["--full-matrix"], ["--attempts=3"], ["--llm-key-env=KEY"], ["--model=m"]),
]
PATHS = ("seams", "scenarios", "evidence-dir", "report-dir", "expected-failures")

SEAM = """
name = "absent"
title = "A harness that is not there"
homepage = "https://example.org"
dialect = "chat"
streams = false
scenarios = ["edit_file"]
trajectory = "none"
[install]
kind = "preinstalled"
path = "nowhere"
version = "1"
commands = { absent = "absent" }
[agent]
command = "absent {instruction}"
[shell]
tool = "bash"
"""


@pytest.fixture
def refused(pytester):
    """Runs pytest in this process, as what is refused starts nothing; the end of one run of each kind is looked at from outside below."""

    def run(*arguments):
        done = pytester.runpytest_inprocess(*OPTIONS, *arguments)
        assert done.ret == 4
        said = done.stdout.str() + done.stderr.str()
        assert "Traceback" not in said
        return said

    return run


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--harness=qqqqq"], "there is no harness 'qqqqq'; known: "),
        (["--harness=mini-swe-agnet"], "did you mean mini-swe-agent?"),
        (["--harness=pi", "--scenario=edit_fiel"], "there is no scenario 'edit_fiel'; did you mean edit_file"),
        (["--harness=pi", "--scenario=subagent"], "--scenario subagent needs subagent, and the row of pi has none"),
        (["--harness=pi", "--sandbox=cloud"], "--sandbox 'cloud' is not known to this version; known: local"),
        (
            ["--harness=pi", "--image=mine"],
            "--image mine: the sandbox local is made from no image of yours; with it name --sandbox=docker and --sandbox=podman alone",
        ),
        (["--harness=pi", "--bake"], "--bake: the sandbox local is made from no image"),
        (["--harness=pi", "--bake", "--sandbox=podman", f"--sandbox={FAR}"], f"--bake: the sandbox {FAR} is made from no image"),
        (["--harness=pi", "--image=", "--sandbox=local"], "--image : the sandbox local is made from no image"),
        (["--harness=pi", "--engine=brain"], "--engine 'brain' is not known to this version; known: scripted"),
        (["--harness=pi", "--attempts=0"], "--attempts 0: a number from 1 to 1000 is needed"),
        (["--harness=pi", "--attempts=1000000"], "a number from 1 to 1000 is needed"),
        (["--harness=pi@../../x"], "'../../x' is no version of pi"),
        (["--harness=pi@1 --foo"], "'1 --foo' is no version of pi"),
        (["--harness=pi", "--attempts=many"], "invalid int value: 'many'"),
        (["--harness=pi", "--requirements=1999.01"], "there is no requirement set '1999.01'"),
        (["--harness=pi", "--seams=nowhere"], "nowhere: no such folder found"),
        (["--harness=pi@"], "'pi@' ends in @"),
        (["--harness=pi@1.6.0", "--harness=pi@1.5.0"], "--harness names pi in two versions"),
        (["--harness=pi", "--sabotage=nan_logprb"], "did you mean nan_logprob or "),
        (["--harness=pi", "--scenario=edit_file", "--shard=1/2"], "--shard 1/2: there are fewer rollouts to divide (1)"),
        (["--harness=pi", "--shard=3"], "--shard '3': write which of how many, such as 3/8"),
        (["--proxy=bundled", "--shard=1/2"], "--shard is for runs of seams, and --proxy names another subject"),
        (["--harness=pi", "--require=perfect"], "--require 'perfect': what can be required is validated"),
        (["--harness=pi", "--expected-failures=nowhere"], "--expected-failures: nowhere is missing"),
        (["--replay=nowhere"], "--replay nowhere: there is no such folder"),
        (["--replay=."], "no evidence was found there"),
        *((["--harness=pi", f"--{name}="], "an empty path names nothing") for name in PATHS),
        (["--replay="], "an empty path names nothing"),
        *((["--replay=.", *given], f"{given[0].partition('=')[0]} is for rollouts, and --replay judges those") for given in OF_ROLLOUTS),
        *((["--proxy=bundled", *given], "is for runs of seams, and --proxy names another subject") for given in OF_ROLLOUTS[:-2]),
        (["--proxy=bundled", "--scenario=edit_file"], "--scenario is for runs of seams, and --proxy names another subject"),
        (["--harness=pi", "--llm-key-env=KEY"], "--llm-key-env is for --llm-url, and none is given; leave it out"),
    ],
)
def test_a_wrong_option_is_one_sentence(refused, pytester, arguments, sentence):
    assert sentence in refused(*arguments)
    assert list(pytester.path.iterdir()) == []


@pytest.mark.parametrize("option", ["--evidence-dir", "--report-dir"])
def test_a_folder_that_cannot_be_written_is_named_before_anything_runs(refused, pytester, option):
    (pytester.path / "file").touch()
    for folder in ("/proc/x", "file/x"):
        assert f"{option} {folder} cannot be written" in refused("--harness=pi", "--scenario=edit_file", f"{option}={folder}")


def test_a_missing_prerequisite_of_a_named_harness_ends_the_run(tmp_path, run_pytest):
    (tmp_path / "seams").mkdir()
    (tmp_path / "seams" / "absent.toml").write_text(SEAM)
    done = run_pytest(tmp_path, "--harness=absent", "--seams=seams")
    assert done.returncode == 4
    assert "there is no folder" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_broken_row_is_named_with_file_and_key(tmp_path, run_pytest):
    (tmp_path / "seams").mkdir()
    (tmp_path / "seams" / "absent.toml").write_text(SEAM.replace("streams = false", 'streams = "sometimes"'))
    done = run_pytest(tmp_path, "--harness=absent", "--seams=seams")
    assert done.returncode == 4
    assert "seams/absent.toml: streams:" in done.stderr


def test_torn_evidence_is_named(tmp_path, run_pytest):
    folder = tmp_path / "pi" / "local" / "scripted" / "edit_file" / "1"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{")
    done = run_pytest(tmp_path, "--replay=.")
    assert done.returncode == 4
    assert "manifest.json is not JSON" in done.stderr


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_machine_without_an_engine_is_told_what_to_install(refused, monkeypatch, tmp_path, engine):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"--sandbox={engine}: there is no {engine} on this machine; install it" in refused("--harness=pi", f"--sandbox={engine}")
