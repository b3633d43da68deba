"""What a run did not roll out, as people read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pytest_harness.reports.model import LeftOut

MOST = 10
"""So many of one reason are named; the report has all."""


def sentences(left_out: Iterable[LeftOut]) -> Iterator[str]:
    """One line for each reason, with what it left out."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for each in left_out:
        by_reason[each.why].append(each.rollout)
    for why, rollouts in by_reason.items():
        more = len(rollouts) - MOST
        named = ", ".join([*rollouts[:MOST], *([f"and {more} more, in the report"] if more > 0 else [])])
        yield f"not run, {why}: {named}"
