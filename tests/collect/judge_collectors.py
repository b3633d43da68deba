"""Runs the collector suite on several collectors in one process, without a report.

Usage: ``python judge_collectors.py FOLDER SPEC...``; a spec is ``module:Class`` of a Collector. ``FOLDER/results.json`` says for each spec
how each requirement stood: the names of its cases by outcome.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_harness.session.case_fixtures import SUBJECT
from pytest_harness.wire.outcome import Broken, NotExercised

SUITE = Path(__file__).parents[2] / "conformance" / "runtime"


class Judge:
    """Gives each test each collector, and takes down what became of it."""

    def __init__(self, specs):
        self.specs = specs
        self.results = {spec: defaultdict(lambda: defaultdict(list)) for spec in specs}

    def pytest_configure(self, config):
        config.addinivalue_line("markers", "requirement(id): the requirement")

    def pytest_generate_tests(self, metafunc):
        metafunc.fixturenames.append("collector")
        metafunc.parametrize("collector", self.specs)

    def pytest_runtest_setup(self, item):
        module, _, name = item.callspec.params["collector"].partition(":")
        adapter = SimpleNamespace(collector=getattr(importlib.import_module(module), name))
        item.config.stash[SUBJECT] = SimpleNamespace(adapter=adapter)

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        spec = pyfuncitem.callspec.params["collector"]
        requirement = pyfuncitem.get_closest_marker("requirement").args[0]
        outcome, said = "passed", ""
        try:
            yield
        except NotExercised as answer:
            outcome, said = "not_exercised", str(answer)
        except Broken as broken:
            outcome, said = "failed", str(broken)
        except Exception as error:  # noqa: BLE001 - taken down, never swallowed
            outcome, said = "error", "".join(traceback.format_exception(error))
        self.results[spec][requirement][outcome].append(f"{pyfuncitem.name}: {said}")
        return True


def main(folder, specs):
    judge = Judge(specs)
    modules = sorted(SUITE.glob("test_collector_*.py"))
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--import-mode=importlib", f"--basetemp={folder / 'tmp'}"]
    code = pytest.main([*arguments, "--rootdir", str(folder), "-c", "/dev/null", *map(str, modules)], plugins=[judge])
    if code != pytest.ExitCode.OK:
        sys.exit(f"the suite could not be run: exit code {int(code)}")
    (folder / "results.json").write_text(json.dumps(judge.results))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(Path(sys.argv[1]), sys.argv[2:])
