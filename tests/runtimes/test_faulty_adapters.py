"""Whatever an adapter raises, exits with or waits for, pytest says so in one sentence and never ends by an error of its own."""

import json

import pytest

from pytest_harness.wire.guarding import AdapterError, brief, escaped, guarded, versions_of

BASE = """
import pytest
import sys
import threading
from pytest_harness.runtimes.bundled import BundledRuntime
from pytest_harness.wire import guarding

def stuck():
    threading.Event().wait()
"""
SMALL = ("-k", "unknown_tool")


@pytest.fixture
def judged(tmp_path, run_pytest):
    """Judges the class ``Own`` of a module with this text."""

    def run(text, *arguments, option="--runtime"):
        (tmp_path / "faulty.py").write_text(BASE + text)
        (tmp_path / "hurried.py").write_text("from pytest_harness.wire import guarding\nguarding.LIMIT_SEC = 0.1\n")
        if text == "stuck()":  # the limit of an import must be a short one before it begins
            arguments = ("-p", "hurried", *arguments)
        done = run_pytest(tmp_path, f"{option}=faulty:Own", *SMALL, *arguments, env={"PYTHONPATH": str(tmp_path)})
        assert "Traceback" not in done.stdout + done.stderr
        assert "INTERNALERROR" not in done.stdout + done.stderr
        return done

    def report():
        return json.loads((tmp_path / ".harness" / "report" / "runtime.json").read_text())

    run.report = report
    return run


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def", "the import of faulty failed (SyntaxError: "),
        ("raise RuntimeError('\\x1b[31mfirst\\nsecond')", "the import of faulty failed (RuntimeError: [31mfirst); correct the adapter"),
        ("sys.exit(0)", "the import of faulty failed (SystemExit: 0)"),
        ("pytest.exit('bye', 0)", "the import of faulty failed (Exit: bye)"),
        ("def __getattr__(name):\n    raise KeyError(name)", "the import of faulty failed (KeyError: 'Own')"),
        ("stuck()", "the import of faulty took longer than 0.1 s"),
        ("class Own(BundledRuntime):\n    def __init__(self):\n        sys.exit(3)", "making a Own failed (SystemExit: 3)"),
        ("class Own(BundledRuntime):\n    def start(self, folder):\n        1 / 0", "start of faulty:Own failed (ZeroDivisionError: "),
        ("class Own(BundledRuntime):\n    def start(self, folder):\n        pytest.skip('no')", "start of faulty:Own failed (Skipped: no)"),
        (
            "class Own(BundledRuntime):\n    def start(self, folder):\n        pytest.exit('bye', 0)",
            "start of faulty:Own failed (Exit: bye)",
        ),
        (
            "guarding.LIMIT_SEC = 0.1\nclass Own(BundledRuntime):\n    def start(self, folder):\n        stuck()",
            "start of faulty:Own took longer than 0.1 s",
        ),
        (
            "class Own(BundledRuntime):\n    def start(self, folder):\n        1 / 0\n    def stop(self):\n        sys.exit(0)",
            "start of faulty:Own failed (ZeroDivisionError: ",
        ),
    ],
)
def test_an_adapter_that_does_not_come_to_its_tests_ends_the_run_in_one_sentence(judged, text, sentence):
    done = judged(text)
    assert done.returncode == 4, done.stdout + done.stderr
    assert sentence in done.stderr


def test_a_proxy_that_exits_instead_of_starting_is_told_alike(judged):
    text = (
        "from pytest_harness.wire.bundled import BundledProxy\n"
        "class Own(BundledProxy):\n    def start(self, engine, folder):\n        sys.exit(0)\n"
    )
    done = judged(text, option="--proxy")
    assert done.returncode == 4
    assert "start of faulty:Own failed (SystemExit: 0)" in done.stderr


def test_a_name_with_dots_before_it_is_no_name(tmp_path, run_pytest):
    done = run_pytest(tmp_path, "--runtime=..a:X")
    assert done.returncode == 4
    assert "or an adapter class as module:Class" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_stop_that_fails_costs_no_report_and_turns_the_run_red(judged, arguments):
    done = judged("class Own(BundledRuntime):\n    def stop(self):\n        raise RuntimeError('stuck fast')", *arguments)
    assert done.returncode == 1
    assert done.stdout.count("stop of faulty:Own failed (RuntimeError: stuck fast)") == 1
    assert judged.report()["ran"] == 1


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("raise RuntimeError('none known')", "versions() of the adapter failed (RuntimeError: none known)"),
        ("return 3", "versions() of the adapter returned int, a dict of names and versions is expected"),
    ],
)
def test_versions_that_cannot_be_told_cost_no_report(judged, body, sentence):
    done = judged(f"class Own(BundledRuntime):\n    def versions(self):\n        {body}")
    assert done.returncode == 1
    assert sentence in done.stdout
    assert judged.report()["versions"] == {"faulty:Own": "of unknown version"}


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ("None", "run() returned NoneType, an Episode is expected"),
        ("Episode((1,), 'completed', None)", "whose messages are no tuple of Message"),
        ("Episode((), 'failed', None, error=None)", "whose error is no text"),
        ("pytest.exit('bye', 0)", "bye"),
    ],
)
def test_a_run_that_returns_no_episode_is_a_fault_of_the_adapter(tmp_path, run_pytest, returned, sentence):
    text = (
        "from pytest_harness.runtimes import Episode\n"
        "class Loop:\n    def run(self, model, environment, limits):\n"
        f"        return {returned}\n"
        "class Own(BundledRuntime):\n    def runtime(self):\n        return Loop()\n"
    )
    (tmp_path / "faulty.py").write_text(BASE + text)
    done = run_pytest(tmp_path, "--runtime=faulty:Own", *SMALL, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert sentence in done.stdout
    report = json.loads((tmp_path / ".harness" / "report" / "runtime.json").read_text())
    entry = next(each for each in report["requirements"] if each["id"] == "RUN-008")
    assert entry["standing"] == "error"
    assert sentence in entry["reasons"][0]


def test_a_lone_surrogate_is_escaped_in_the_report(judged):
    done = judged(
        "from pytest_harness.runtimes import Episode\n"
        "class Loop:\n    def run(self, model, environment, limits):\n"
        "        return Episode((), 'failed', None, error='bad \\ud800 text')\n"
        "class Own(BundledRuntime):\n    def runtime(self):\n        return Loop()\n"
    )
    assert done.returncode == 1
    assert "bad \\ud800 text" in json.dumps(judged.report()).replace("\\\\", "\\")


def test_an_error_whose_own_text_fails_is_told_by_its_type():
    class MuteError(Exception):
        def __str__(self):
            raise ValueError

    assert brief(MuteError()) == "MuteError"


def test_an_interrupt_of_the_user_passes():
    with pytest.raises(KeyboardInterrupt), guarded("start of X"):
        raise KeyboardInterrupt


def test_a_version_that_is_no_text_is_told_as_text():
    assert versions_of(lambda: {"own": 3}) == {"own": "3"}
    with pytest.raises(AdapterError, match="returned NoneType"):
        versions_of(lambda: None)


def test_what_fits_into_utf_8_is_left_as_it_is():
    assert escaped({"a": ["ü", 1, None, {"b": "\ud800"}]}) == {"a": ["ü", 1, None, {"b": "\\ud800"}]}
