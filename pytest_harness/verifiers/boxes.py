"""What ``--verifier`` names: a sandbox by Harbor's name, or a class of somebody's own, as Harbor takes it."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass

from harbor.environments.base import BaseEnvironment
from harbor.models.environment_type import EnvironmentType
from harbor.models.trial.config import EnvironmentConfig, ServiceVolumeConfig, VerifierConfig
from harbor.verifier.base import BaseVerifier

from pytest_harness.sandboxes.bubblewrap import check
from pytest_harness.sandboxes.local import LOCAL_SANDBOX
from pytest_harness.wire.guarding import AdapterError, brief, guarded

LOCAL = "local"
NOWHERE = "/there/is/no/such/folder"


@dataclass(frozen=True)
class Box:
    """A sandbox, and the verifier in it."""

    import_path: str | None = None
    """Of the class of the sandbox; None for one of Harbor's own."""
    type: EnvironmentType | None = None
    verifier: str | None = None
    """The import path of the class of the verifier; None for Harbor's own."""

    def environment(self, *, broken: bool) -> EnvironmentConfig:
        """The sandbox as a trial is told of it; a broken one is to have a folder that is not there."""
        missing: ServiceVolumeConfig = {"type": "bind", "source": NOWHERE, "target": "/missing", "read_only": True}
        return EnvironmentConfig(import_path=self.import_path, type=self.type, mounts=[missing] if broken else None)

    def grading(self, *, disabled: bool) -> VerifierConfig:
        """The verifier as a trial is told of it."""
        return VerifierConfig(disable=disabled, import_path=self.verifier)


def box_of(spec: str) -> Box:
    """The box of a name or ``module:Class``. Raises AdapterError."""
    if spec == LOCAL:
        if reason := check():
            raise AdapterError(f"--verifier {spec}: {reason}")
        return Box(import_path=LOCAL_SANDBOX)
    if re.fullmatch(r"\w+(\.\w+)*:\w+", spec):
        return _own(spec)
    try:
        return Box(type=EnvironmentType(spec))
    except ValueError:
        known = ", ".join([LOCAL, *(each.value for each in EnvironmentType)])
        raise AdapterError(f"--verifier {spec}: name one of {known}, or a class of Harbor's kind as module:Class") from None


def _own(spec: str) -> Box:
    module, _, name = spec.partition(":")
    with guarded(f"--verifier {spec}: the import of {module}"):
        try:
            loaded = getattr(importlib.import_module(module), name, None)
        except ImportError as error:
            raise AdapterError(f"--verifier {spec}: {module} cannot be imported ({brief(error)}); put it on PYTHONPATH") from None
    if isinstance(loaded, type) and issubclass(loaded, BaseVerifier):
        return Box(import_path=LOCAL_SANDBOX, verifier=spec)
    if isinstance(loaded, type) and issubclass(loaded, BaseEnvironment):
        return Box(import_path=spec)
    raise AdapterError(f"--verifier {spec}: {name} must be a subclass of Harbor's BaseEnvironment or BaseVerifier")
