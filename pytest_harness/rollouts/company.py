"""What the evidence of a rollout says of another that ran beside it."""

from __future__ import annotations

from pytest_harness.contract.company import says
from pytest_harness.contract.grading import recorded_choice
from pytest_harness.contract.validity import trial_exception
from pytest_harness.evidence import Companion, Evidence
from pytest_harness.rollouts.player import Player


def companion_of(player: Player, beside: Player, seen: Evidence) -> Companion:
    """The facts of a companion, of which that was ``seen``."""
    moments = [moment for call in seen.calls for moment in call.times.model_dump().values() if moment is not None]
    return Companion(
        marker=player.marker,
        key_digest=player.key_digest,
        calls=tuple(call.id for call in seen.calls),
        strayed=sum(says(call, beside.marker) for call in seen.calls),
        began=min(moments, default=None),
        ended=max(moments, default=None),
        reward=recorded_choice(seen),
        exception=trial_exception(seen) or seen.manifest.ending.exception_type,
    )
