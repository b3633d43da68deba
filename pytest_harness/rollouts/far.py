"""Where a harness is rolled out that is none of our sandboxes: nothing is mounted there, and the proxy is reached by a public URL."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from harbor.environments.base import BaseEnvironment
from harbor.models.trial.config import EnvironmentConfig
from harbor.trial.hooks import TrialEvent, TrialHookEvent
from harbor.trial.trial import Trial

from pytest_harness.capture.front import Way
from pytest_harness.provision import Installed
from pytest_harness.provision.packing import Packed, packed
from pytest_harness.sandboxes.equipping import Equipment, equip
from pytest_harness.sandboxes.remote import Remote
from pytest_harness.seams import RenderedAgent

ASK_SECONDS = 60.0
"""How long a sandbox that should be gone may take to say so."""


@dataclass(frozen=True)
class FarPlace:
    """One kind of such a sandbox, with one harness."""

    remote: Remote
    installed: Installed
    packed: Packed | None
    way: Way | None
    """How the proxy is reached from there; None where a port of this machine's loopback is."""
    versions: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    def environment(self, agent: RenderedAgent, gate: str) -> EnvironmentConfig:  # noqa: ARG002 (as every place is asked)
        """Harbor's configuration of the sandbox, with nothing of ours in it."""
        return self.remote.environment()

    def visit(self, agent: RenderedAgent) -> Visit:
        """What puts the harness into the sandbox of one trial."""
        archive, leads_to = (None, ()) if self.packed is None else (self.packed.archive, self.packed.leads_to)
        return Visit(Equipment(archive, leads_to, {**self.installed.shims, **agent.shims}, dict(agent.files)))


def far_place(remote: Remote, harness: str, installed: Installed, way: Way | None) -> FarPlace:
    """The place for this harness in a sandbox of this kind. Raises ProvisionError if its archive cannot be made."""
    return FarPlace(remote, installed, packed(installed, harness), None if remote.reaches_loopback else way)


class Visit:
    """One trial in a sandbox elsewhere: the harness is put in as soon as that runs, and afterwards it is asked whether it is gone."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._environment: BaseEnvironment | None = None
        self.gone: bool | None = True
        """Whether the sandbox was found to be gone; None where it does not say."""

    def watch(self, trial: Trial) -> None:
        """Hook into the trial. Harbor has no hook between the start of a sandbox and the set-up of the agent."""

        async def follow(_: TrialHookEvent) -> None:
            environment = trial.agent_environment
            start = environment.start

            async def start_equipped(force_build: bool) -> None:
                self._environment = environment
                await start(force_build)
                await equip(environment, self._equipment)

            environment.start = start_equipped  # type: ignore[method-assign]  # of this one sandbox, whatever its class

        trial.add_hook(TrialEvent.ENVIRONMENT_START, follow)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """See whether it is gone, and end it if it is not."""
        environment = self._environment
        if environment is None:
            return
        try:
            async with asyncio.timeout(ASK_SECONDS):
                self.gone = (await environment.exec("true", cwd="/")).return_code != 0
        except TimeoutError:
            self.gone = None
        except Exception:  # noqa: BLE001 (each class has its own for a sandbox that is gone)
            self.gone = True
        if self.gone is False:
            await environment.stop(delete=True)
