"""A run that judges a capture proxy: starts it, gives its tests their outcomes, reports.

Registered as a plugin only when ``--proxy`` was given. A test that ends in ``Broken`` is a finding about the proxy; one that ends in any
other exception is a fault of the suite or of the adapter, and is told apart.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_harness import __version__
from pytest_harness.places import REPORT_DIR
from pytest_harness.reports.build import shown
from pytest_harness.requirements import Catalogue, Requirement, RequirementsError, load_catalogue
from pytest_harness.resources import resource
from pytest_harness.session import wire_fixtures
from pytest_harness.session.outcome import CATEGORIES, DRAFT_NOT_MET, SHOULD_NOT_MET
from pytest_harness.session.rendering import write_section
from pytest_harness.session.wire_marks import REQUIREMENT
from pytest_harness.wire.adapter import ProxyAdapter, load_adapter
from pytest_harness.wire.loading import AdapterError
from pytest_harness.wire.outcome import Broken, NotExercised
from pytest_harness.wire.report import CaseResult, ProxyReport, build_report, print_report, write_report
from pytest_harness.wire.subject import Case, Subject

LIMIT_SEC = 90
"""How long one test may take; every wait inside is shorter, so only a proxy that dribbles meets it."""


class WireSession:
    """The hooks of one such run, in the controller and in each xdist worker."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.is_worker = hasattr(config, "workerinput")
        self.spec: str = config.getoption("harness_proxy")
        if config.getoption("harness_harness") or config.getoption("harness_replay") is not None:
            raise pytest.UsageError("--proxy judges a proxy by itself; run pytest once more for --harness or --replay")
        try:
            self.catalogue: Catalogue = load_catalogue(config.getoption("harness_requirements"), "proxy")
            self.adapter: ProxyAdapter = load_adapter(self.spec)
        except (AdapterError, RequirementsError) as error:
            raise pytest.UsageError(str(error)) from None
        self.results: list[CaseResult] = []
        self.report: ProxyReport | None = None
        config.addinivalue_line("markers", f"{REQUIREMENT}(id): the requirement of a capture proxy that the test is of")
        config.pluginmanager.register(wire_fixtures, "harness-conformance-wire-fixtures")
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = [str(resource("conformance", "wire"))]

    def pytest_report_header(self) -> str:
        """One line: what judges, and what is judged."""
        by = f"{len(self.catalogue)} requirements of {self.catalogue.version}"
        return f"harness-conformance {__version__}: the capture proxy {self.spec} by {by}"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Start the proxy before the first test and stop it after the last."""
        option = session.config.option
        if option.collectonly or (not self.is_worker and getattr(option, "dist", "no") != "no"):
            return (yield)  # with xdist, the workers run the tests
        try:
            subject = Subject(self.adapter).__enter__()
        except AdapterError as error:
            raise pytest.UsageError(str(error)) from None
        session.config.stash[wire_fixtures.SUBJECT] = subject
        try:
            return (yield)
        finally:
            subject.__exit__()

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
            with _limited():
                yield
        except NotExercised as answer:
            result.result, result.reason = "not_exercised", str(answer)
        except Broken as broken:
            result.result, result.expected, result.seen = "failed", broken.expected, broken.seen
            result.reason = "; ".join(getattr(broken, "__notes__", ()))
            result.exchanges = case.log.documents() if isinstance(case, Case) else []
        except Exception as error:  # noqa: BLE001 - a fault of the suite is told, and never taken for the proxy's
            result.result, result.reason = "error", "".join(traceback.format_exception(error)).rstrip()
        pyfuncitem.user_properties.append(result.to_property())
        _raise_outcome(result, requirement)
        return True

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
        if report.when == "call" and not self.is_worker:
            result = CaseResult.of_properties(report.user_properties)
            if result is not None:
                self.results.append(result)

    # -- reporting --------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Write the report."""
        if self.results:
            self.report = build_report(self.spec, self.adapter, self.catalogue, self.results)
            self.report_path = write_report(self.report, self.config.getoption("harness_report_dir") or REPORT_DIR)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The matrix, the findings in a line each, and where the report lies."""
        if self.report is None:
            return
        report = self.report
        write_section(self.config, terminalreporter, "wire conformance", lambda console: print_report(report, console))
        terminalreporter.write_line(f"report: {shown(self.report_path)}")


def _raise_outcome(result: CaseResult, requirement: Requirement) -> None:
    if result.result == "passed":
        return
    if result.result == "error" and not requirement.draft:
        pytest.fail(f"{requirement.id}: the suite or the adapter failed, not the proxy\n{result.reason}", pytrace=False)
    if result.result == "failed" and requirement.binding:
        pytest.fail(_explain(result, requirement), pytrace=False)
    pytest.skip(result.reason if result.result in ("not_exercised", "error") else f"expected {result.expected}, seen {result.seen}")


def _explain(result: CaseResult, requirement: Requirement) -> str:
    lines = [f"{requirement.id} {requirement.title} ({requirement.level}): {requirement.statement}"]
    lines += [f"  expected  {result.expected}", f"  seen      {result.seen}"]
    lines += [f"  case      {result.reason}"] if result.reason else []
    for exchange in result.exchanges[-1:]:
        lines += [f"  request   {exchange['request']}", f"            {exchange['request_body']}"]
        lines += [f"  reply     {exchange['status']}", f"            {exchange['reply_body']}"]
    return "\n".join([*lines, f"  why: {requirement.why}"])


@contextmanager
def _limited() -> Iterator[None]:
    """Ends what takes longer than a test may, whatever it is waiting for; only the main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def overdue(*_: Any) -> None:
        raise Broken(f"an end within {LIMIT_SEC} s", "the test was still waiting for the proxy")

    before = signal.signal(signal.SIGALRM, overdue)
    signal.alarm(LIMIT_SEC)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
