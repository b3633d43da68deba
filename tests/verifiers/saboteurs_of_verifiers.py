"""Verifiers and sandboxes with one known fault each, and the requirements that each of them breaks.

Each is named on the command line as any other class: ``pytest --verifier=saboteurs_of_verifiers:ZeroForMissing``.
"""

import socket
import tempfile
import uuid
from pathlib import Path
from typing import ClassVar

from harbor.environments.base import ExecResult
from harbor.models.verifier.result import VerifierResult
from harbor.verifier.verifier import RewardFileEmptyError, RewardFileNotFoundError, Verifier, VerifierOutputParseError

from pytest_harness.sandboxes.bubblewrap import SandboxDiedError
from pytest_harness.sandboxes.layout import Mount
from pytest_harness.sandboxes.local import LocalSandbox
from pytest_harness.verifiers.canaries import HOST_PORT
from pytest_harness.verifiers.plays import KEY, SEAMS


class Sound(Verifier):
    """Harbor's own."""


class _ZeroFor(Verifier):
    faults: tuple[type[Exception], ...] = ()

    async def verify(self) -> VerifierResult:
        try:
            return await super().verify()
        except self.faults:
            return VerifierResult(rewards={"reward": 0.0})


class ZeroForMissing(_ZeroFor):
    """No file is 0."""

    faults = (RewardFileNotFoundError,)


class ZeroForUnreadable(_ZeroFor):
    """What cannot be read is 0."""

    faults = (RewardFileEmptyError, VerifierOutputParseError)


class ZeroForDead(_ZeroFor):
    """A sandbox that is gone has failed the task."""

    faults = (SandboxDiedError,)


class Doubled(Verifier):
    """Numbers are not what was written."""

    async def verify(self) -> VerifierResult:
        rewards = (await super().verify()).rewards or {}
        return VerifierResult(rewards={name: 2 * value for name, value in rewards.items()})


class NoneForZero(Verifier):
    """0 is taken for nothing."""

    async def verify(self) -> VerifierResult:
        result = await super().verify()
        if result.rewards and not any(result.rewards.values()):
            raise RewardFileNotFoundError("nothing was earned")
        return result


class VagueErrors(Verifier):
    """Something went wrong."""

    async def verify(self) -> VerifierResult:
        try:
            return await super().verify()
        except Exception:  # noqa: BLE001 - the fault
            raise RuntimeError("something went wrong") from None


class KeepsOldRewards(Verifier):
    """What lies there is the reward."""

    async def _remove_reward_files(self) -> None:
        pass


class KeyOfTheSeam(Verifier):
    """The grader calls its model with the agent's key."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.override_env = {**self.override_env, KEY: SEAMS}


class SoundSandbox(LocalSandbox):
    """Ours."""


class GivesTestsAway(LocalSandbox):
    """The tests are there from the beginning."""

    async def start(self, force_build: bool) -> None:
        await super().start(force_build)
        await self.upload_dir(self.environment_dir.parent / "tests", "/tests")


_COMMON = tempfile.TemporaryDirectory(prefix="harness-saboteur-")


class SharesItsFolder(LocalSandbox):
    """One folder for temporary files, for all."""

    def _bound_by_harbor(self) -> tuple[Mount, ...]:
        folder = Path(_COMMON.name)
        folder.chmod(0o755)
        (folder / "tmp").mkdir(exist_ok=True)
        (folder / "tmp").chmod(0o777)
        return (*super()._bound_by_harbor(), Mount(folder / "tmp", "/tmp", writable=True))


class OpensTheMachine(LocalSandbox):
    """What listens on the machine's loopback listens inside too."""

    async def exec(self, command: str, cwd=None, env=None, timeout_sec=None, user=None) -> ExecResult:
        port = (env or {}).get(HOST_PORT)
        if port is None:
            return await super().exec(command, cwd, env, timeout_sec, user)
        with self._running().sandbox.listener(int(port)):
            return await super().exec(command, cwd, env, timeout_sec, user)


class HandsItsEngineIn(LocalSandbox):
    """The socket of the engine, so that the agent can start containers of its own."""

    def _bound_by_harbor(self) -> tuple[Mount, ...]:
        path = Path(_COMMON.name, f"{uuid.uuid4().hex}.sock")
        with socket.socket(socket.AF_UNIX) as engine:
            engine.bind(str(path))
        Path(_COMMON.name).chmod(0o755)
        path.chmod(0o666)
        return (*super()._bound_by_harbor(), Mount(path, "/run/docker.sock", writable=True))


class NeverStops(LocalSandbox):
    """Whoever is stopped goes on. This process takes them with it when it ends."""

    kept: ClassVar[list[object]] = []

    async def stop(self, delete: bool) -> None:
        self.kept.append(self._runner)
        self._runner = None


BREAKS = {
    ZeroForMissing: {"REW-302", "REW-307"},
    ZeroForUnreadable: {"REW-303"},
    ZeroForDead: {"REW-302"},
    Doubled: {"REW-301", "REW-305", "REW-306", "ISO-301"},
    NoneForZero: {"REW-301", "REW-305"},
    VagueErrors: {"REW-304"},
    KeepsOldRewards: {"REW-307", "REW-308"},
    KeyOfTheSeam: {"ISO-301"},
    GivesTestsAway: {"ISO-302"},
    SharesItsFolder: {"ISO-303"},
    OpensTheMachine: {"ISO-304"},
    HandsItsEngineIn: {"ISO-305"},
    NeverStops: {"SBX-301"},
}
