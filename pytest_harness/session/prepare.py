"""Gets everything ready that the rollouts of a run need, before the first of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from pytest_harness.provision import ProvisionError, provision
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
    if any(spec.sandbox == "local" for spec in specs):
        from pytest_harness.sandboxes.bubblewrap import check  # noqa: PLC0415 (a replay needs no sandbox)

        if (reason := check()) is not None:
            raise Unready(reason)
    for seam in {spec.seam.name: spec.seam for spec in specs}.values():
        try:
            provision(seam, progress=say)
        except ProvisionError as error:
            if seam.name in plan.named:
                raise Unready(f"{seam.name}: {error}") from None
            say(f"{seam.name}: {error}")
