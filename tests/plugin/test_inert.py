"""A host that only has the plugin installed sees nothing of it."""

from __future__ import annotations

import re

import pytest

TESTS = """
import pytest

def test_passes(): pass
def test_fails(): assert 1 == 2
@pytest.mark.skip(reason="no")
def test_skips(): pass
@pytest.fixture
def evidence(): return 1
def test_own_fixture(evidence): assert evidence == 1
"""

OWNER = """
def pytest_addoption(parser):
    for name in ("harness", "sandbox", "engine", "scenario", "attempts", "requirements", "seams", "scenarios", "evidence-dir"):
        parser.addoption("--" + name, default="mine")
"""


def timeless(output: str) -> str:
    return re.sub(r"in \d+\.\d+s", "in TIMEs", output)


@pytest.mark.parametrize("arguments", [(), ("-v", "-ra"), ("--collect-only",), ("--fixtures",), ("--markers",)])
def test_a_hosts_run_is_the_same_byte_for_byte(tmp_path, run_pytest, arguments):
    (tmp_path / "test_host.py").write_text(TESTS)
    without = run_pytest(tmp_path, "--no-header", "-p", "no:harness", *arguments)
    with_us = run_pytest(tmp_path, "--no-header", *arguments)
    assert timeless(with_us.stdout) == timeless(without.stdout)
    assert (with_us.returncode, with_us.stderr) == (without.returncode, without.stderr)
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"test_host.py"}


def test_a_host_may_own_every_short_name(tmp_path, run_pytest):
    (tmp_path / "conftest.py").write_text(OWNER)
    (tmp_path / "test_host.py").write_text("def test_it(pytestconfig): assert pytestconfig.getoption('engine') == 'mine'\n")
    assert run_pytest(tmp_path).returncode == 0


def test_the_long_names_work_where_the_host_owns_the_short_ones(tmp_path, run_pytest):
    (tmp_path / "conftest.py").write_text(OWNER)
    done = run_pytest(tmp_path, "--conformance-harness=nonsense")
    assert done.returncode == 4
    assert "there is no harness 'nonsense'" in done.stderr


def test_importing_the_plugin_imports_nothing_heavy(tmp_path, run_pytest):
    (tmp_path / "test_host.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    heavy = {'harbor', 'litellm', 'aiohttp', 'uvicorn', 'tokenizers', 'pydantic', 'rich', 'jsonschema'}\n"
        "    assert heavy & set(sys.modules) == set()\n"
    )
    done = run_pytest(tmp_path, "-p", "no:anyio", "-p", "no:hypothesispytest")
    assert done.returncode == 0, done.stdout


def test_help_names_the_options(tmp_path, run_pytest):
    done = run_pytest(tmp_path, "--help")
    for name in ("harness", "sandbox", "engine", "scenario", "attempts", "replay", "requirements", "evidence-dir", "report-dir"):
        assert f"--conformance-{name}" in done.stdout
        assert f"short: --{name}" in re.sub(r"\s+", " ", done.stdout)


@pytest.mark.parametrize("subject", ["--harness=x", "--replay=x", "--proxy=x", "--runtime=x", "--verifier=x", "--llm-url=x"])
def test_help_is_given_whatever_is_wrong_with_the_subject(tmp_path, run_pytest, subject):
    done = run_pytest(tmp_path, subject, "--image=x", "--help")
    assert done.returncode == 0, done.stderr
    assert "  --harness=NAME[@VERSION]" in done.stdout
