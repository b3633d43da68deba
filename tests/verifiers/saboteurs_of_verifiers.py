"""Verifiers with one known fault each, and the requirements that each of them breaks.

Each is named on the command line as any other class: ``pytest --verifier=saboteurs_of_verifiers:ZeroForMissing``.
"""

from harbor.models.verifier.result import VerifierResult
from harbor.verifier.verifier import RewardFileEmptyError, RewardFileNotFoundError, Verifier, VerifierOutputParseError

from pytest_harness.sandboxes.bubblewrap import SandboxDiedError
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


BREAKS = {
    ZeroForMissing: {"REW-302", "REW-307"},
    ZeroForUnreadable: {"REW-303"},
    ZeroForDead: {"REW-302"},
    Doubled: {"REW-301", "REW-305", "REW-306", "ISO-301"},
    NoneForZero: {"REW-301", "REW-305"},
    VagueErrors: {"REW-304"},
    KeepsOldRewards: {"REW-307"},
    KeyOfTheSeam: {"ISO-301"},
}
