"""An adapter is named, loaded and started with one clear sentence for whatever is wrong with it."""

import json

import pytest

from pytest_harness.wire import AdapterError, load_adapter
from pytest_harness.wire.openenv import VARIABLE

OWN = """
from pytest_harness.wire import AdapterError
from pytest_harness.wire.bundled import BundledProxy

class Own(BundledProxy):
    name = "own"

class Failing(BundledProxy):
    def start(self, engine, folder):
        raise AdapterError("own cannot be started: there is no licence; buy one")

class Torn(BundledProxy):
    def calls(self, session):
        raise RuntimeError("the adapter itself is broken")

class Silent(BundledProxy):
    dialects = frozenset()
"""


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("http://127.0.0.1:1", "write an adapter class"),
        ("nonsense", "name bundled or openenv, or an adapter class as module:Class"),
        ("no_such_module:Proxy", "no_such_module cannot be imported"),
        ("json:Proxy", "json has no Proxy"),
        ("json:JSONDecoder", "is no subclass of pytest_harness.wire.ProxyAdapter"),
        ("pytest_harness.wire.adapter:ProxyAdapter", "cannot be made without arguments"),
    ],
)
def test_a_wrong_name_is_one_sentence(spec, sentence):
    with pytest.raises(AdapterError) as error:
        load_adapter(spec)
    assert sentence in str(error.value)
    assert spec in str(error.value)


@pytest.fixture
def own(tmp_path, run_pytest):
    (tmp_path / "own.py").write_text(OWN)

    def run(*arguments, env=None):
        return run_pytest(tmp_path, *arguments, env={"PYTHONPATH": str(tmp_path), **(env or {})})

    run.report = tmp_path / ".harness" / "report" / "wire.json"
    return run


def test_a_proxy_that_cannot_be_started_ends_the_run_in_one_sentence(own):
    done = own("--proxy=own:Failing")
    assert done.returncode == 4
    assert "there is no licence; buy one" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_python_without_openenv_is_named(own):
    done = own("--proxy=openenv", env={VARIABLE: "/nonexistent/python"})
    assert done.returncode == 4
    assert "/nonexistent/python has no openenv" in done.stderr
    assert VARIABLE in done.stderr


def test_a_proxy_and_a_harness_are_judged_in_runs_of_their_own(own):
    done = own("--proxy=own:Own", "--harness=pi")
    assert done.returncode == 4
    assert "--proxy judges a proxy by itself" in done.stderr


def test_an_adapter_of_ones_own_is_judged_and_reported(own):
    done = own("--proxy=own:Own", "-k", "asked_for_the_model or hundred")
    assert done.returncode == 0, done.stdout
    report = json.loads(own.report.read_text())
    assert report["proxy"] == "own:Own"
    standings = {each["id"]: each["standing"] for each in report["requirements"]}
    assert (standings["TOK-104"], standings["CAN-103"], standings["ERR-101"]) == ("passed", "passed", "not_exercised")
    assert report["ran"] == 2
    assert "report: .harness/report/wire.json" in done.stdout


def test_the_workers_of_xdist_share_one_report(own):
    done = own("--proxy=own:Own", "-k", "asked_for_the_model or hundred", "-n", "2")
    assert done.returncode == 0, done.stdout
    assert json.loads(own.report.read_text())["ran"] == 2


def test_a_dialect_that_is_not_served_is_not_exercised_with_the_reason(own):
    done = own("--proxy=own:Silent", "-k", "asked_for_the_model")
    assert done.returncode == 0
    entry = next(each for each in json.loads(own.report.read_text())["requirements"] if each["id"] == "TOK-104")
    assert entry["standing"] == "not_exercised"
    assert "own does not serve" in str(entry["reasons"]) or "bundled does not serve the dialect chat" in str(entry["reasons"])


def test_a_fault_of_the_adapter_is_never_the_proxys(own):
    done = own("--proxy=own:Torn", "-k", "truncated and chat and whole")
    assert done.returncode == 1
    assert "the suite or the adapter failed, not the proxy" in done.stdout
    entry = next(each for each in json.loads(own.report.read_text())["requirements"] if each["id"] == "FIN-101")
    assert entry["standing"] == "error"
    assert entry["findings"] == []


def test_no_key_is_in_the_report(own):
    own("--proxy=own:Silent")
    own("--proxy=own:Torn", "-k", "truncated or 401")
    assert "sk-hc-" not in own.report.read_text()
    assert "engine-key-" not in own.report.read_text()
