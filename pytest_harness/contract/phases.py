"""When the agent ran and when it was graded, in Unix seconds, by Harbor's result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pytest_harness.evidence.model import Evidence

Phase = Literal["environment_setup", "agent_setup", "agent_execution", "verifier"]


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when; None where Harbor recorded no such moment."""

    started: float | None
    finished: float | None


def window(evidence: Evidence, phase: Phase) -> Window | None:
    """When this phase ran, or None if it never began."""
    timing = (evidence.trial_result or {}).get(phase)
    return Window(seconds(timing.get("started_at")), seconds(timing.get("finished_at"))) if isinstance(timing, dict) else None


def shown(seconds: float) -> str:
    """The moment as people and logs write it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def seconds(moment: Any) -> float | None:
    """Unix seconds of a moment as Harbor writes it; None if it is none. Without a zone it is UTC."""
    try:
        read = datetime.fromisoformat(moment)
    except (TypeError, ValueError):
        return None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
