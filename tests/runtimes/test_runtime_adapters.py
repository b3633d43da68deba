"""A runtime is named, started, judged and reported; what is wrong with it or its adapter is one clear sentence."""

import json

import pytest

from pytest_harness.runtimes import load_adapter
from pytest_harness.wire import AdapterError
from pytest_harness.wire.openenv import VARIABLE

OWN = """
from pytest_harness.runtimes.bundled import BundledRuntime
from pytest_harness.runtimes.loop import Loop
from pytest_harness.wire import AdapterError, NotExercised

class Own(BundledRuntime):
    name = "own"

class Failing(BundledRuntime):
    def start(self, folder):
        raise AdapterError("own cannot be started: there is no licence; buy one")

class Torn(BundledRuntime):
    def runtime(self):
        raise RuntimeError("the adapter itself is broken")

class CollectorOnly(BundledRuntime):
    def runtime(self):
        raise NotExercised("own has no loop")

class Zero(BundledRuntime):
    def runtime(self):
        loop = Loop()
        loop.reward = lambda running: 0.0
        return loop
"""


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("nonsense", "name bundled or openenv, or an adapter class as module:Class"),
        ("no_such_module:Runtime", "no_such_module cannot be imported"),
        ("json:Runtime", "json has no Runtime"),
        ("json:JSONDecoder", "is no subclass of pytest_harness.runtimes.RuntimeAdapter"),
        ("pytest_harness.runtimes.adapter:RuntimeAdapter", "cannot be made without arguments"),
    ],
)
def test_a_wrong_name_of_a_runtime_is_one_sentence(spec, sentence):
    with pytest.raises(AdapterError) as error:
        load_adapter(spec)
    assert sentence in str(error.value)
    assert f"--runtime {spec}" in str(error.value)


@pytest.fixture
def own(tmp_path, run_pytest):
    (tmp_path / "own.py").write_text(OWN)

    def run(*arguments, env=None):
        return run_pytest(tmp_path, *arguments, env={"PYTHONPATH": str(tmp_path), **(env or {})})

    def entry(name):
        entries = json.loads((tmp_path / ".harness" / "report" / "runtime.json").read_text())["requirements"]
        return next(each for each in entries if each["id"] == name)

    run.entry = entry
    return run


def test_a_runtime_of_ones_own_is_judged_and_reported(own):
    done = own("--runtime=own:Own", "-k", "test_runtime_ and (unknown_tool or no_finite)")
    assert done.returncode == 0, done.stdout
    assert (own.entry("RUN-008")["standing"], own.entry("RUN-001")["standing"]) == ("passed", "not_exercised")
    assert "2 of " in done.stdout
    assert "required checks ran" in done.stdout
    assert "report: .harness/report/runtime.json" in done.stdout


def test_the_workers_of_xdist_share_one_report_of_a_runtime(own):
    done = own("--runtime=own:Own", "-k", "test_runtime_ and (unknown_tool or no_finite)", "-n", "2")
    assert done.returncode == 0, done.stdout
    assert {own.entry(name)["standing"] for name in ("RUN-008", "RUN-020")} == {"passed"}


def test_a_fault_of_the_runtime_is_a_finding_with_its_episode(own):
    done = own("--runtime=own:Zero", "-k", "test_runtime_ and (no_finite or not_grade)")
    assert done.returncode == 1
    entry = own.entry("RUN-018")
    assert entry["standing"] == "failed"
    assert [line[0] for line in entry["findings"][0]["exchanges"][0]["lines"]][-1] == "ended"
    assert "RUN-018 No reward is not zero (MUST)" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_fault_of_the_adapter_is_never_the_runtimes(own):
    done = own("--runtime=own:Torn", "-k", "unknown_tool")
    assert done.returncode == 1
    assert "the suite or the adapter failed, not the runtime" in done.stdout
    assert (own.entry("RUN-008")["standing"], own.entry("RUN-008")["findings"]) == ("error", [])


def test_what_a_runtime_does_not_have_is_not_exercised_with_the_reason(own):
    done = own("--runtime=own:CollectorOnly", "-k", "unknown_tool")
    assert done.returncode == 0
    assert (own.entry("RUN-008")["standing"], own.entry("RUN-008")["reasons"]) == ("not_exercised", ["own has no loop"])


@pytest.mark.parametrize(
    ("arguments", "env", "sentence"),
    [
        (["--runtime=own:Failing"], {}, "there is no licence; buy one"),
        (["--runtime=openenv"], {VARIABLE: "/nonexistent/python"}, "/nonexistent/python has no openenv"),
        (["--runtime=own:Own", "--harness=pi"], {}, "--runtime judges a runtime by itself"),
        (["--runtime=own:Own", "--proxy=bundled"], {}, "--proxy and --runtime name a subject each"),
        (["--runtime=own:Own", "--requirements=2026.11"], {}, "set 2026.11 holds nothing for the subject runtime"),
    ],
    ids=["not-started", "no-openenv", "a-harness-too", "a-proxy-too", "an-old-set"],
)
def test_a_run_that_cannot_begin_says_why_in_one_sentence(own, arguments, env, sentence):
    done = own(*arguments, env=env)
    assert done.returncode == 4
    assert sentence in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
