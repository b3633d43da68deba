"""Gets everything ready that the rollouts of a run need, before the first of them."""

from __future__ import annotations

from collections.abc import Callable

from pytest_harness.provision import ProvisionError, provision
from pytest_harness.session.plan import Plan


class Unready(Exception):  # noqa: N818 (it is a state, not an error of ours)
    """A prerequisite of a named harness is missing; the message says what to install or set."""


def prepare(plan: Plan, say: Callable[[str], None]) -> None:
    """Check the sandbox and install the harnesses. Raises Unready.

    A harness that was only reached by ``all`` and cannot be installed is left for its own tests to say so.
    """
    specs = [attempt.spec for attempt in plan.attempts if attempt.spec is not None]
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
