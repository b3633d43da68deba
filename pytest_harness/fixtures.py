"""The fixtures that other repositories use to test agents of their own. A host asks for them in its ``conftest.py``:

    pytest_plugins = ["pytest_harness.fixtures"]

``scripted_engine(steps)`` starts an engine that says what it is told, ``capture_proxy(engine)`` opens a session of the capture proxy before
it, ``evidence(session)`` ends the session and gives what was captured, and ``rollout(harness, scenario)`` runs a seam in the sandbox and
gives its evidence. ``broken(evidence)`` judges either.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pytest_harness.capture import Upstream
    from pytest_harness.contract import Finding
    from pytest_harness.engines.scripted import Fault
    from pytest_harness.evidence import Evidence
    from pytest_harness.workbench import Captured, Rollouts

__all__ = ["broken", "capture_proxy", "evidence", "rollout", "scripted_engine"]


class StartEngine(Protocol):
    """Starts an engine for the length of the test."""

    def __call__(
        self,
        *steps: tuple[str, Sequence[str]],
        tool: str | None = None,
        argument: str = "command",
        instruction: str | None = None,
        faults: Iterable[Fault] = (),
    ) -> Upstream:
        """An engine that says these (text, shell commands) turn by turn; its ``url``, ``model`` and ``api_key``.

        ``tool`` and ``argument`` are the agent's tool that runs a shell command. With an ``instruction``, only conversations that contain
        it follow the script. Raises ScriptError.
        """


class OpenSession(Protocol):
    """Opens a session of a capture proxy that lives as long as the test."""

    def __call__(self, engine: Upstream, *, calls: int | None = None) -> Captured:
        """A session before this engine, with ``base_urls`` and ``key`` for the agent; it lets ``calls`` calls through."""


class GiveEvidence(Protocol):
    """Gives evidence."""

    def __call__(self, source: Captured | str | PathLike[str], *, name: str = "agent") -> Evidence:
        """What a session captured, which is closed by it, as evidence of an agent of this ``name``; or what a folder holds."""


class RollOut(Protocol):
    """Runs a seam."""

    def __call__(
        self,
        harness: str,
        scenario: str = "edit_file",
        *,
        seams: str | PathLike[str] | None = None,
        scenarios: str | PathLike[str] | None = None,
    ) -> Evidence:
        """The evidence of one rollout in the local sandbox on the scripted engine; each pair runs once a session.

        ``seams`` and ``scenarios`` are folders of the host's own. What cannot be run fails the test in a sentence.
        """


@pytest.fixture
def scripted_engine() -> Iterator[StartEngine]:
    """``scripted_engine(("I look.", ["ls"]), ("Done.", []), tool="run", argument="line")``: an engine that says just that."""
    from pytest_harness.capture import Upstream  # noqa: PLC0415 (a host pays for it in the tests that use it)
    from pytest_harness.workbench import engine_server  # noqa: PLC0415

    with ExitStack() as stack:

        def start(
            *steps: tuple[str, Sequence[str]],
            tool: str | None = None,
            argument: str = "command",
            instruction: str | None = None,
            faults: Iterable[Fault] = (),
        ) -> Upstream:
            key = "sk-hc-" + secrets.token_urlsafe(32)
            server = engine_server(steps, tool=tool, argument=argument, instruction=instruction, faults=faults, api_key=key)
            return Upstream(url=stack.enter_context(server).listen().url, model="scripted", api_key=key)

        yield start


@pytest.fixture
def capture_proxy(tmp_path: Path) -> Iterator[OpenSession]:
    """``capture_proxy(engine)``: a session of the capture proxy before the engine."""
    from pytest_harness.workbench import ProxyServer  # noqa: PLC0415 (likewise)

    folder = tmp_path / "capture"
    folder.mkdir()
    with ProxyServer(folder) as proxy:
        yield proxy.open


@pytest.fixture
def evidence() -> GiveEvidence:
    """``evidence(session)`` or ``evidence("path/to/evidence")``: what checks and ``broken`` judge."""
    from pytest_harness.requirements import load_catalogue  # noqa: PLC0415 (likewise)
    from pytest_harness.workbench import Captured, evidence_of  # noqa: PLC0415

    def give(source: Captured | str | PathLike[str], *, name: str = "agent") -> Evidence:
        given = source if isinstance(source, Captured) else Path(source)
        return evidence_of(given, name=name, requirements=load_catalogue(None).version)

    return give


@pytest.fixture(scope="session")
def _harness_rollouts(tmp_path_factory: pytest.TempPathFactory) -> Rollouts:
    from pytest_harness.workbench import Rollouts  # noqa: PLC0415 (likewise)

    return Rollouts(tmp_path_factory.mktemp("rollouts"))


@pytest.fixture
def rollout(_harness_rollouts: Rollouts) -> RollOut:
    """``rollout("my-agent", "edit_file", seams="seams")``: the evidence of a real rollout."""
    from pytest_harness.provision import ProvisionError  # noqa: PLC0415 (likewise)
    from pytest_harness.scenarios import ScenarioError  # noqa: PLC0415
    from pytest_harness.seams import SeamError  # noqa: PLC0415
    from pytest_harness.workbench import NoRollout  # noqa: PLC0415

    def run(
        harness: str,
        scenario: str = "edit_file",
        *,
        seams: str | PathLike[str] | None = None,
        scenarios: str | PathLike[str] | None = None,
    ) -> Evidence:
        folders = [None if each is None else Path(each) for each in (seams, scenarios)]
        try:
            return _harness_rollouts.evidence(harness, scenario, seams=folders[0], scenarios=folders[1])
        except (SeamError, ScenarioError, ProvisionError, NoRollout) as error:
            pytest.fail(str(error), pytrace=False)

    return run


def broken(evidence: Evidence, *, requirements: str | None = None) -> tuple[Finding, ...]:
    """The findings of every MUST that the evidence breaks, so that a test can say ``assert not broken(evidence)``.

    What was captured without a trial is judged by what concerns its calls. Fails, with AssertionError, if the evidence counts for nothing.
    """
    from pytest_harness.workbench import broken as found  # noqa: PLC0415 (likewise)

    return found(evidence, requirements=requirements)
