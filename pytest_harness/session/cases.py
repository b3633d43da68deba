"""What runs that judge one subject by test modules of their own have in common: outcomes, the gathering of results, the report.

A test that ends in ``Broken`` is a finding about the subject; one that ends in any other exception is a fault of the suite or of the
adapter, and is told apart.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any, ClassVar, Protocol, Self

import pytest

from pytest_harness import __version__
from pytest_harness.places import REPORT_DIR
from pytest_harness.reports.cases import CaseReport, CaseResult, print_report
from pytest_harness.reports.cases import write_report as write_cases
from pytest_harness.requirements import Catalogue, Requirement, RequirementsError, load_catalogue
from pytest_harness.requirements import Subject as Kind
from pytest_harness.resources import resource
from pytest_harness.session import case_fixtures
from pytest_harness.session.case_marks import REQUIREMENT
from pytest_harness.session.outcome import CATEGORIES, DRAFT_NOT_MET, SHOULD_NOT_MET
from pytest_harness.session.rendering import tell_report, write_report, write_section
from pytest_harness.session.standard import Guard
from pytest_harness.wire import guarding
from pytest_harness.wire.guarding import AdapterError
from pytest_harness.wire.outcome import Broken, NotExercised


class Started(Protocol):
    """A subject, started; a context manager that stops it."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def case(self) -> AbstractContextManager[Any]:
        """What one test gets."""


class CaseSession(ABC):
    """The hooks of one such run, in the controller and in each xdist worker."""

    kind: ClassVar[Kind]
    """The kind of subject."""
    option: ClassVar[str]
    """The option that names it, as pytest keeps it."""
    noun: ClassVar[str]
    """What people call it."""
    suite: ClassVar[str]
    """The folder of its test modules, and the title of its section."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.is_worker = hasattr(config, "workerinput")
        self.spec: str = config.getoption(f"harness_{self.option}")
        if config.getoption("harness_harness") or config.getoption("harness_replay") is not None:
            named, a = self.option.replace("_", "-"), "an" if self.kind.startswith(("a", "e")) else "a"
            raise pytest.UsageError(f"--{named} judges {a} {self.kind} by itself; run pytest once more for --harness or --replay")
        try:
            self.catalogue: Catalogue = load_catalogue(config.getoption("harness_requirements"), self.kind)
            self.load()
        except (AdapterError, RequirementsError) as error:
            raise pytest.UsageError(str(error)) from None
        self.results: list[CaseResult] = []
        self.report: CaseReport | None = None
        self.faults: list[str] = []
        """What the adapter did wrong beside the tests, a sentence each."""
        self.guard = Guard({}, name=str)
        config.addinivalue_line("markers", f"{REQUIREMENT}(id): the requirement of a {self.noun} that the test is of")
        config.pluginmanager.register(case_fixtures, "harness-conformance-case-fixtures")
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = [str(resource("conformance", self.suite))]

    @abstractmethod
    def load(self) -> None:
        """Make the adapter that ``spec`` names. Raises AdapterError."""

    @abstractmethod
    def subject(self) -> Started:
        """The subject, not yet started."""

    @abstractmethod
    def report_of(self, results: list[CaseResult]) -> CaseReport:
        """The report."""

    def excuse(self, result: CaseResult) -> str | None:  # noqa: ARG002 - most subjects have no known deviations
        """The known deviation of a named version that a failure is, as a sentence; None if it is none."""
        return None

    def shown(self, exchanges: list[dict[str, Any]]) -> list[str]:
        """The last of what passed between suite and subject, as lines for people."""
        return [f"  last      {exchange}" for exchange in exchanges[-1:]]

    def pytest_report_header(self) -> str:
        """One line: what judges, and what is judged."""
        by = f"{len(self.catalogue)} requirements of {self.catalogue.version}"
        return f"harness-conformance {__version__}: the {self.noun} {self.spec} by {by}"

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Hear of a test of the bundled suite, before anybody can take it away again."""
        if item.path.is_relative_to(resource("conformance", self.suite)):
            self.guard.tests[item.nodeid] = None

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Hear what was taken away in the open."""
        self.guard.deselect(item.nodeid for item in items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Hear what will run."""
        self.guard.collect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Hear it of a worker."""
        self.guard.collect(ids)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Start the subject before the first test and stop it after the last."""
        option = session.config.option
        if option.collectonly or (not self.is_worker and getattr(option, "dist", "no") != "no"):
            return (yield)  # with xdist, the workers run the tests
        try:
            subject = self.subject().__enter__()
        except AdapterError as error:
            raise pytest.UsageError(str(error)) from None
        session.config.stash[case_fixtures.SUBJECT] = subject
        try:
            return (yield)
        finally:
            self._stop(subject)

    def _stop(self, subject: Started) -> None:
        """Stop it; what goes wrong then must not cost the report."""
        try:
            with guarding.guarded(f"stop of the {self.noun}"):
                subject.__exit__()
        except AdapterError as error:
            self.faults.append(str(error))

    def told_versions(self, told: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        """What the adapter says of its versions; where it cannot, that is a fault of its own beside the report."""
        try:
            return guarding.versions_of(told)
        except AdapterError as error:
            self.faults.append(str(error))
            return {self.spec: "of unknown version"}

    # -- outcomes ---------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Give a test of a requirement its outcome."""
        requirement = self._requirement(pyfuncitem)
        if requirement is None:
            return (yield)
        case = pyfuncitem.funcargs.get("case")
        result = CaseResult(requirement.id, pyfuncitem.name)
        try:
            with guarding.limited(self._overdue):
                yield
        except NotExercised as answer:
            result.result, result.reason = "not_exercised", str(answer)
        except Broken as broken:
            result.result, result.expected, result.seen = "failed", broken.expected, broken.seen
            result.reason = "; ".join(getattr(broken, "__notes__", ()))
            result.exchanges = case.log.documents() if hasattr(case, "log") else []
            if (excuse := self.excuse(result)) is not None:
                result.result, result.reason = "deviation", excuse
        except AdapterError as error:
            result.result, result.reason = "error", str(error)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a fault of the suite or adapter, its sys.exit too, is never the subject's
            result.result, result.reason = "error", "".join(traceback.format_exception(error)).rstrip()
        result = CaseResult(**guarding.escaped(asdict(result)))  # what is foreign in it must fit into a report
        pyfuncitem.user_properties.append(result.to_property())
        self._raise_outcome(result, requirement)
        return True

    def _overdue(self) -> Broken:
        return Broken(f"an end within {guarding.LIMIT_SEC:g} s", f"the test was still waiting for the {self.kind}")

    def _requirement(self, item: pytest.Item) -> Requirement | None:
        marker = item.get_closest_marker(REQUIREMENT)
        return None if marker is None else self.catalogue[marker.args[0]]

    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
        """Count what is neither passed nor failed under its own name."""
        result = (
            CaseResult.of_properties(report.user_properties) if isinstance(report, pytest.TestReport) and report.when == "call" else None
        )
        if result is None:
            return None
        requirement = self.catalogue[result.requirement]
        if result.result in ("failed", "error") and requirement.draft:
            return DRAFT_NOT_MET
        if result.result == "failed" and requirement.level == "SHOULD":
            return SHOULD_NOT_MET
        return CATEGORIES.get(result.result)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather what was judged, here and in the workers."""
        if self.is_worker or str(report.outcome) == "rerun":  # what is tried again is said again
            return
        result = CaseResult.of_properties(report.user_properties) if report.when == "call" else None
        self.guard.hear(report, looked=result is not None)
        if result is not None:
            self.results.append(result)

    # -- reporting --------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report; a fault of the adapter beside the tests turns the run red too."""
        if self.results:
            self.report = self.report_of(self.results)
            judged, folder = self.report, self.config.getoption("harness_report_dir") or REPORT_DIR
            self.written = write_report(session, folder, lambda: write_cases(judged, folder))
        if self.is_worker:
            told = {
                "harness_faults": self.faults,
                "harness_tests": list(self.guard.tests),
                "harness_deselected": list(self.guard.deselected),
            }
            self.config.workeroutput.update(told)  # type: ignore[attr-defined]  # xdist's
        elif self.faults and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear of the faults that a worker of xdist met, and of what it collected."""
        told = getattr(node, "workeroutput", {})
        self.faults += [fault for fault in told.get("harness_faults", []) if fault not in self.faults]
        self.guard.tests |= dict.fromkeys(told.get("harness_tests", []))
        self.guard.deselect(told.get("harness_deselected", []))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The matrix, the findings in a line each, and where the report lies."""
        for fault in self.faults:
            terminalreporter.write_line(f"ERROR: {fault}", red=True)
        if (report := self.report) is not None:
            write_section(self.config, terminalreporter, f"{self.suite} conformance", lambda console: print_report(report, console))
            tell_report(terminalreporter, self.written)
        if self.config.option.collectonly:
            return
        if not self.guard.tests:
            terminalreporter.write_line(
                f"none of the standard checks of a {self.noun} was collected; name no paths to run them", yellow=True
            )
        elif (said := self.guard.sentence()) is not None:
            terminalreporter.write_line(said, yellow=True)

    def _raise_outcome(self, result: CaseResult, requirement: Requirement) -> None:
        if result.result == "passed":
            return
        if result.result == "error" and not requirement.draft:
            pytest.fail(f"{requirement.id}: the suite or the adapter failed, not the {self.kind}\n{result.reason}", pytrace=False)
        if result.result == "failed" and requirement.binding:
            pytest.fail(self._explain(result, requirement), pytrace=False)
        pytest.skip(
            result.reason if result.result in ("not_exercised", "error", "deviation") else f"expected {result.expected}, seen {result.seen}"
        )

    def _explain(self, result: CaseResult, requirement: Requirement) -> str:
        lines = [f"{requirement.id} {requirement.title} ({requirement.level}): {requirement.statement}"]
        lines += [f"  expected  {result.expected}", f"  seen      {result.seen}"]
        lines += [f"  case      {result.reason}"] if result.reason else []
        return "\n".join([*lines, *self.shown(result.exchanges), f"  why: {requirement.why}"])
