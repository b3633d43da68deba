"""A sandbox of Harbor's own, or of a class of somebody's: nothing of this machine is mounted there, and its network is another one.

A name of Harbor's is looked up in the catalogue (``catalogue.py``); ``module:Class`` names a class of Harbor's kind and is taken to be as
far away as one can be. The trial goes through that class as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pytest_harness.sandboxes.catalogue import bundled_catalogue

if TYPE_CHECKING:
    from harbor.models.trial.config import EnvironmentConfig

_IMPORT_PATH = re.compile(r"\w+(\.\w+)*:\w+")
SEE = "docs/remote.md says how"


class RemoteError(Exception):
    """A sandbox that cannot be asked for; the message says why and what to do."""


@dataclass(frozen=True)
class Remote:
    """One kind of sandbox that is not of ours."""

    name: str
    own: bool
    """Whether the name is that of a class of somebody's, not one of Harbor's."""
    reaches_loopback: bool
    """Whether a harness in it reaches a port of this machine's loopback by itself."""

    @classmethod
    def named(cls, name: str) -> Self | None:
        """The sandbox of this name; None where no such one is known."""
        if _IMPORT_PATH.fullmatch(name):
            return cls(name, own=True, reaches_loopback=False)
        backend = bundled_catalogue().get(name)
        return None if backend is None else cls(name, own=False, reaches_loopback=backend.reach == "loopback")

    def require(self) -> None:
        """Raises RemoteError where something is seen to be lacking that it needs on this machine: an account, a package, a program."""
        if self.own:
            return
        backend = bundled_catalogue()[self.name]
        if wishes := backend.lacks:
            unseen = "" if backend.unseen is None else f"; if it was not done yet, {backend.unseen}"
            raise RemoteError(f"--sandbox {self.name}: {backend.title} cannot be used yet: {'; '.join(wishes)}{unseen}; {SEE}")

    def ask(self) -> None:
        """Let Harbor's class say whether it can be used. It may ask its vendor. Raises RemoteError."""
        from harbor.environments.factory import EnvironmentFactory  # noqa: PLC0415 (Harbor takes a second to import)

        config = self.environment()
        try:
            EnvironmentFactory.run_preflight(config.type, config.import_path)
        except (SystemExit, Exception) as refusal:  # noqa: BLE001 (it is Harbor's, a vendor's, or somebody's own code)
            said = " ".join(str(refusal).split()).rstrip(".") or type(refusal).__name__
            raise RemoteError(f"--sandbox {self.name}: it cannot be used: {said}; {SEE}") from None

    def environment(self) -> EnvironmentConfig:
        """The sandbox as a trial is told of it."""
        from harbor.models.environment_type import EnvironmentType  # noqa: PLC0415 (likewise)
        from harbor.models.trial.config import EnvironmentConfig  # noqa: PLC0415

        return EnvironmentConfig(import_path=self.name) if self.own else EnvironmentConfig(type=EnvironmentType(self.name))
