"""What ``--verifier`` names: a sandbox of ours, one by Harbor's name, or a class of somebody's own, as Harbor takes it."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass

from harbor.environments.base import BaseEnvironment
from harbor.models.environment_type import EnvironmentType
from harbor.models.trial.config import EnvironmentConfig, ServiceVolumeConfig, VerifierConfig
from harbor.verifier.base import BaseVerifier

from pytest_harness.rollouts.places import IMPORT_PATHS
from pytest_harness.sandboxes.kinds import LOCAL, refusal
from pytest_harness.wire.guarding import AdapterError, brief, guarded

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


def box_of(spec: str, sandbox: str | None = None) -> Box:
    """The box of a name or ``module:Class``; ``sandbox`` is where a verifier of somebody's own is to run. Raises AdapterError."""
    if re.fullmatch(r"\w+(\.\w+)*:\w+", spec):
        return _own(spec, sandbox)
    if sandbox not in {None, spec}:
        raise AdapterError(f"--verifier {spec}: it names a sandbox, and --sandbox={sandbox} another; leave one of them out")
    if spec in IMPORT_PATHS:
        return Box(import_path=_ours(spec, spec))
    try:
        return Box(type=EnvironmentType(spec))
    except ValueError:
        known = ", ".join(dict.fromkeys([*IMPORT_PATHS, *(each.value for each in EnvironmentType)]))
        raise AdapterError(f"--verifier {spec}: name one of {known}, or a class of Harbor's kind as module:Class") from None


def _ours(spec: str, kind: str) -> str:
    """The class of a sandbox of ours, which can be started here."""
    if kind not in IMPORT_PATHS:
        raise AdapterError(f"--verifier {spec}: --sandbox={kind} is none of {', '.join(IMPORT_PATHS)}, in which a verifier can be run")
    if reason := refusal(kind):
        raise AdapterError(f"--verifier {spec}: {reason.removeprefix(f'--sandbox={kind}: ')}")
    return IMPORT_PATHS[kind]


def _own(spec: str, sandbox: str | None) -> Box:
    module, _, name = spec.partition(":")
    with guarded(f"--verifier {spec}: the import of {module}"):
        try:
            loaded = getattr(importlib.import_module(module), name, None)
        except ImportError as error:
            raise AdapterError(f"--verifier {spec}: {module} cannot be imported ({brief(error)}); put it on PYTHONPATH") from None
    if isinstance(loaded, type) and issubclass(loaded, BaseVerifier):
        return Box(import_path=_ours(spec, sandbox or LOCAL), verifier=spec)
    if isinstance(loaded, type) and issubclass(loaded, BaseEnvironment):
        if sandbox is not None:
            raise AdapterError(f"--verifier {spec}: it is a sandbox itself; leave --sandbox={sandbox} out")
        return Box(import_path=spec)
    raise AdapterError(f"--verifier {spec}: {name} must be a subclass of Harbor's BaseEnvironment or BaseVerifier")
