"""One harness that plays a scenario: in a sandbox, with a session of its own at the proxy, from its start to the verifier's word."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pytest_harness.capture import CaptureProxy
from pytest_harness.capture.budget import Budget
from pytest_harness.capture.front import Door
from pytest_harness.contract.grading import RESULT, REWARD_JSON, REWARD_TEXT
from pytest_harness.evidence import Call, Ending, Grading, Inside
from pytest_harness.rollouts.aftermath import Aftermath
from pytest_harness.rollouts.engines import Engine
from pytest_harness.rollouts.far import FarPlace, Visit
from pytest_harness.rollouts.places import Place
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.rollouts.trial import agent_config, run_trial
from pytest_harness.sandboxes.channel import RunningSandbox, SandboxDiedError
from pytest_harness.sandboxes.gates import gate
from pytest_harness.serving import BackgroundServer

PROXY_PORT = 8555
"""The port in the sandbox's own network namespace on which the proxy is reached: the same in every sandbox."""


class Player:
    """Plays the scenario of ``spec`` once, in the folder ``work``. Others may play at the same time, through the same proxy."""

    def __init__(  # noqa: PLR0917 (what it plays, with what, where)
        self, spec: RolloutSpec, place: Place | FarPlace, engine: Engine, proxy: CaptureProxy, server: BackgroundServer, work: Path
    ) -> None:
        self._spec = spec
        self._place = place
        self._engine = engine
        self._server = server
        self._work = work
        self._sandboxes: list[RunningSandbox] = []
        self.session = proxy.open_session(
            engine.upstream,
            journal=work / "journal.ndjson",
            steer=engine.steer,
            purpose=engine.purpose,
            budget=Budget(calls=spec.scenario.budget),
        )
        self._visit: Visit | None = None
        self._door: Door | None = None
        self._inside = isinstance(place, Place) and not spec.seam.outside
        self._url = self._reached(place, proxy)
        address = self._url.partition("://")[2]
        self._aftermath = Aftermath(work=work, secret=self.session.key, address=address, alone=isinstance(place, Place))

    def _reached(self, place: Place | FarPlace, proxy: CaptureProxy) -> str:
        """Where the harness finds the proxy: inside its sandbox, by the public way, or at a port of this machine for this rollout alone."""
        if self._inside:
            return f"http://127.0.0.1:{PROXY_PORT}"
        if isinstance(place, Place) or place.way is None or self._spec.seam.outside:
            return self._server.listen().url
        self._door = place.way.door()
        self._server.listen(self._door.listener(), self._door.below(proxy))
        return self._door.url

    @property
    def marker(self) -> str:
        """What only its script says, where others play too."""
        return self._spec.scenario.marker or ""

    @property
    def key_digest(self) -> str:
        """SHA-256 of its key."""
        return hashlib.sha256(self.session.key.encode()).hexdigest()

    async def play(self) -> Ending:
        """Run the trial."""
        spec = self._spec
        agent = spec.seam.render(
            url=self._url,
            key=self.session.key,
            model=self._engine.upstream.model,
            steps=spec.step_limit,
            compacts=spec.scenario.needs == "compaction",
        )
        if isinstance(self._place, FarPlace):
            self._visit = self._place.visit(agent)
        try:
            with gate(self._serve_inside) as gate_key:
                return await run_trial(
                    agent=agent_config(agent, harness=spec.seam.harness, harness_version=self._place.installed.version),
                    task=spec.scenario.task,
                    sandbox=self._place.environment(agent, gate_key),
                    work=self._work,
                    native_log=spec.seam.native.log,
                    aftermath=self._aftermath,
                    visit=self._visit,
                )
        finally:
            self._engine.leave()
            if self._door is not None:
                self._door.close()

    def close(self) -> tuple[Call, ...]:
        """End the session; its calls. Raises JournalError."""
        return self.session.close()

    def clear_away(self) -> bool | None:
        """End its sandbox if it still runs; whether it was gone, None where nobody can say."""
        gone = [is_gone(sandbox) for sandbox in self._sandboxes]
        return all(gone) if self._visit is None else self._visit.gone

    @property
    def inside(self) -> Inside | None:
        """What it was to find in its sandbox."""
        return self._aftermath.inside

    @property
    def grading(self) -> Grading | None:
        """What was found between its end and the verifier's."""
        return self._aftermath.grading()

    def verdict(self) -> dict[str, str]:
        """The files from which its reward is read, by their path."""
        paths = {name: self._work / name for name in (RESULT, REWARD_JSON, REWARD_TEXT)}
        return {name: path.read_text(encoding="utf-8", errors="replace") for name, path in paths.items() if path.is_file()}

    def _serve_inside(self, sandbox: RunningSandbox) -> None:
        self._sandboxes.append(sandbox)
        if self._inside:
            self._server.listen(sandbox.listener(PROXY_PORT))


def is_gone(sandbox: RunningSandbox) -> bool:
    """Whether nothing can be run in it any more; one that is still there is ended now."""
    try:
        sandbox.spawn(["/bin/true"]).wait()
    except SandboxDiedError:
        return not sandbox.remains()
    sandbox.close()
    return False
