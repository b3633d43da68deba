"""A conformance run inside pytest: collects the bundled suite, shares the rollouts, settles each requirement, reports.

Registered as a plugin only when a subject was named on the command line.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pytest_harness import __version__
from pytest_harness.reports.build import shown
from pytest_harness.reports.left_out import sentences
from pytest_harness.reports.model import Report
from pytest_harness.resources import resource
from pytest_harness.rollouts.workplace import broken_off
from pytest_harness.session import fixtures
from pytest_harness.session.judged import Judged, ended_of, folder_of
from pytest_harness.session.memory import Memory
from pytest_harness.session.outcome import category_of
from pytest_harness.session.plan import VLLM, Attempt, plan_of
from pytest_harness.session.prepare import Unready, prepare
from pytest_harness.session.progress import Progress
from pytest_harness.session.rendering import tell_report, write_report, write_section
from pytest_harness.session.reporting import report_of
from pytest_harness.session.shared_engine import start_vllm
from pytest_harness.session.standard import Guard, attempts_of, standard_tests

DESELECTED = "harness_deselected"
"""What a worker of xdist tells of its collection."""


class ConformanceSession:
    """The hooks and fixtures of one conformance run, in the controller and in each xdist worker."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.is_worker = hasattr(config, "workerinput")
        self.plan = plan_of(config)
        self.progress = Progress(config, total=len(self.plan.attempts), is_worker=self.is_worker)
        config.stash[fixtures.PLAN] = self.plan
        config.stash[fixtures.PROGRESS] = self.progress
        config.stash[fixtures.MEMORY] = Memory()
        config.stash[fixtures.ENDED] = {}
        config.pluginmanager.register(fixtures, "harness-conformance-fixtures")
        self._share_engine(getattr(config, "workerinput", {}).get("harness_engine"))
        self.judged: list[Judged] = []
        self.folders: dict[Path, None] = {}
        self.report: Report | None = None
        self.standard = standard_tests(self.plan)
        self.guard = Guard(dict.fromkeys(self.standard))
        self._prepared = False
        self._wait_for_engine: Callable[[], None] = lambda: None
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = [str(resource("conformance", "seam", "test_seam.py"))]

    # -- xdist ------------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker which run it belongs to, so that it shares this run's rollouts."""
        node.workerinput["harness_run_id"] = self.plan.run_id
        if self.plan.pool is not None and self.plan.pool.engine is not None:
            node.workerinput["harness_engine"] = self.plan.pool.engine.to_json()

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> object:
        """Keep the tests of an attempt on one worker, where nobody chose how they are dealt out."""
        if config.getoption("dist") != "load":
            return None
        from pytest_harness.session.scheduling import AttemptScheduling  # noqa: PLC0415 (xdist need not be there)

        return AttemptScheduling(config, log, self.standard)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Before xdist hands out a test: install what the tests need that are left, once."""
        self._prepare(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear what a worker deselected; all of them do the same."""
        self.guard.deselect(getattr(node, "workeroutput", {}).get(DESELECTED, ()))

    def _share_engine(self, text: str | None) -> None:
        if text is not None and self.plan.pool is not None:
            from pytest_harness.rollouts.engines import SharedEngine  # noqa: PLC0415 (it brings the engines, and most runs need one)

            self.plan.pool.engine = SharedEngine.from_json(text)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Start the engine that all rollouts share, before any worker; it ends with this process, however that ends."""
        if self.plan.engine == VLLM and not self.is_worker and not self.config.option.collectonly:
            self._wait_for_engine = start_vllm(self.config, self.plan, self.progress)

    # -- collection -------------------------------------------------------------------------------------------------------

    def pytest_report_header(self) -> str:
        """One line: what judges, and what is judged."""
        what = f"{len(self.plan.attempts)} attempts by {len(self.plan.catalogue)} requirements of {self.plan.catalogue.version}"
        broken = f", sabotaged by {self.plan.sabotage}" if self.plan.sabotage else ""
        return f"harness-conformance {__version__}: {what}{broken}"

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test of each attempt, and of each attempt and each requirement that applies to it."""
        if "harness_evidence" not in metafunc.fixturenames:
            return
        if "harness_requirement" in metafunc.fixturenames:
            parameters = [
                pytest.param(attempt, requirement, id=f"{attempt.id}-{requirement.id}", marks=self._group(attempt))
                for attempt in self.plan.attempts
                for requirement in self.plan.requirements(attempt)
            ]
            metafunc.parametrize(("harness_attempt", "harness_requirement"), parameters)
        else:
            single = [pytest.param(attempt, id=attempt.id, marks=self._group(attempt)) for attempt in self.plan.attempts]
            metafunc.parametrize("harness_attempt", single + self._unavailable())

    def _group(self, attempt: Attempt) -> list[pytest.MarkDecorator]:
        """For ``--dist=loadgroup``. Without xdist the mark is unknown, and a host may be strict about those."""
        return [pytest.mark.xdist_group(attempt.id)] if self.config.pluginmanager.hasplugin("xdist") else []

    def _unavailable(self) -> list[pytest.ParameterSet]:
        """A test that is skipped, with the reason, for each harness that ``all`` means and no row runs."""
        return [pytest.param(each, id=each.name, marks=pytest.mark.skip(reason=each.sentence)) for each in self.plan.unavailable]

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Hear what was taken away in the open."""
        self.guard.deselect(item.nodeid for item in items)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """A worker imports what rolls out while the first process still gets ready: Harbor takes seconds."""
        if self.is_worker and self.plan.live and not self._collects_only:
            with contextlib.suppress(Exception):  # each rollout says it itself
                importlib.import_module("pytest_harness.rollouts.rollout")

    # -- running ----------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Install what is missing before the first test; with xdist, only its workers know which tests there are."""
        if not self.is_worker and not self._collects_only and getattr(session.config.option, "dist", "no") == "no":
            self._prepare([item.nodeid for item in session.items])
        return (yield)

    @property
    def _collects_only(self) -> bool:
        return bool(self.config.option.collectonly)

    def _prepare(self, nodeids: Sequence[str]) -> None:
        """Get ready what these tests need, once, with a word about it."""
        if self._prepared:
            return
        self._prepared = True
        self.guard.collect(nodeids)
        try:
            prepare(self.plan, attempts_of(self.standard, nodeids), self.progress.say)
        except Unready as error:
            raise pytest.UsageError(str(error)) from None
        self._wait_for_engine()

    # -- reporting --------------------------------------------------------------------------------------------------------

    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
        """Count what is neither passed nor failed under its own name, so that no such answer hides among the skips."""
        if not isinstance(report, pytest.TestReport) or report.when != "call":
            return None
        judged = Judged.of_properties(report.user_properties, self.plan.catalogue)
        if judged is not None:
            return category_of(judged.judgement)
        # A rollout has said its own line; a dot behind it would only tear the lines apart.
        return ("passed", "", "PASSED") if report.passed and folder_of(report.user_properties) else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather what was judged, here and in the workers."""
        if self.is_worker or str(report.outcome) == "rerun":  # what is tried again is said again
            return
        self.guard.hear(report, looked=folder_of(report.user_properties) is not None)
        if report.when != "call":
            return
        if (folder := folder_of(report.user_properties)) is not None:
            self.folders[folder] = None
        if line := ended_of(report.user_properties):
            self.progress.say(line)
        if (judged := Judged.of_properties(report.user_properties, self.plan.catalogue)) is not None:
            self.judged.append(judged)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report; what only all attempts together show turns the run red too."""
        if self.is_worker:
            self.config.workeroutput[DESELECTED] = sorted(self.guard.deselected)  # type: ignore[attr-defined]  # xdist's
        self._refuse_missing(session)
        if not self.folders:
            return
        from pytest_harness.reports.again import stored_evidence  # noqa: PLC0415 (workers and runs that collect only write none)
        from pytest_harness.reports.files import write_files  # noqa: PLC0415

        self.settled = self.plan.gate.settle(report_of(self.plan, self.judged, self.folders), self.plan.today)
        self.report = self.settled.report
        told, folder = self.report, self.plan.report_dir
        self.written = write_report(session, folder, lambda: write_files(told, folder, stored_evidence(told)))
        if not self.settled.ok and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _refuse_missing(self, session: pytest.Session) -> None:
        """Where a verdict is required, a run that did not come to all of the suite is no pass."""
        if self.is_worker or self._collects_only or self.plan.gate.require is None or not self.guard.missing:
            return
        if session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The matrix, what ran of what was required, where the report lies, and what did not run of the suite."""
        if self.report is not None:
            self._print(self.report, terminalreporter)
        self._tell_broken_off(terminalreporter)
        self._tell_missing(terminalreporter)

    def _print(self, report: Report, terminalreporter: pytest.TerminalReporter) -> None:
        from pytest_harness.reports.files import PAGE  # noqa: PLC0415 (workers print nothing)
        from pytest_harness.reports.terminal import print_matrix, print_remarks, print_settled  # noqa: PLC0415

        def print_all(console: Console) -> None:
            for each in self.plan.unavailable:
                console.print(each.sentence, highlight=False, markup=False, soft_wrap=True, style="dim")
            for line in sentences(report.left_out):
                console.print(line, highlight=False, markup=False, soft_wrap=True, style="dim")
            print_remarks(report, console)
            print_matrix(report, console)
            print_settled(self.settled, console)

        write_section(self.config, terminalreporter, "harness conformance", print_all)
        tell_report(terminalreporter, self.written, PAGE)

    def _tell_missing(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._collects_only or (said := self.guard.sentence()) is None:
            return
        required = self.plan.gate.require
        terminalreporter.write_line(
            said if required is None else f"--require {required}: {said}", yellow=required is None, red=required is not None
        )

    def _tell_broken_off(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Where what was captured of a rollout lies that did not come to its end, after Ctrl-C for instance."""
        names = {attempt.spec.id for attempt in self.plan.attempts if attempt.spec is not None}
        for folder in broken_off([self.plan.evidence_dir]) if names and not self._collects_only else ():
            if folder.name in names:
                terminalreporter.write_line(f"broken off: {shown(folder)}; what was captured stays there until the rollout runs again")
