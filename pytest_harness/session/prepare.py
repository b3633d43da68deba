"""Gets everything ready that the rollouts of a run need, before the first of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from pytest_harness.provision import Installed, ProvisionError, provision
from pytest_harness.provision.packing import packed
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.sandboxes.channel import SandboxError
from pytest_harness.sandboxes.kinds import LOCAL, refusal
from pytest_harness.session.plan import Attempt, Plan


class Unready(Exception):  # noqa: N818 (it is a state, not an error of ours)
    """A prerequisite of a named harness is missing; the message says what to install or set."""


def _writable(option: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unready(f"{option} {folder} cannot be written ({reason}); name a folder of yours with room in it") from None


def prepare(plan: Plan, needed: Iterable[Attempt], say: Callable[[str], None]) -> None:
    """Check the sandbox and install the harnesses of the attempts that are needed, of no others. Raises Unready.

    A harness that was only reached by ``all`` and cannot be installed is left for its own tests to say so.
    """
    _writable("--report-dir", plan.report_dir)
    specs = [attempt.spec for attempt in needed if attempt.spec is not None]
    if not specs:
        return
    _writable("--evidence-dir", plan.evidence_dir)
    for kind, boxing in dict.fromkeys((spec.sandbox, spec.boxing) for spec in specs if spec.remote is None):
        if (reason := refusal(kind, boxing)) is not None:
            raise Unready(reason)
    for seam in {spec.seam.name: spec.seam for spec in specs}.values():
        try:
            installed = provision(seam, progress=say)
            if any(spec.remote is not None and spec.seam.name == seam.name for spec in specs):
                packed(installed, seam.harness, progress=say)
        except ProvisionError as error:
            if seam.name in plan.named:
                raise Unready(f"{seam.name}: {error}") from None
            say(f"{seam.name}: {error}")
        else:
            _bake(installed, [spec for spec in specs if spec.seam.name == seam.name], say)


def _bake(installed: Installed, specs: Iterable[RolloutSpec], say: Callable[[str], None]) -> None:
    """Build the images that are asked for, before several processes would do it at once. Raises Unready."""
    for kind, boxing in dict.fromkeys(
        (spec.sandbox, spec.boxing) for spec in specs if spec.boxing.bake and spec.remote is None and spec.sandbox != LOCAL
    ):
        from pytest_harness.rollouts.places import place_of  # noqa: PLC0415 (Harbor takes a second to import)

        say(f"{installed.name}: an image of {kind} with {installed.name} {installed.version} in it")
        try:
            place_of(kind, boxing, installed)
        except SandboxError as error:
            raise Unready(f"--bake: {error}") from None
