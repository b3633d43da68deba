"""Looks at a sandbox from inside, before the agent does: what is the same in every kind of sandbox, and what is not.

A harness tells much of it to its model, so what differs here is in the prompts of one backend and not in those of another.
"""

from __future__ import annotations

import time

from harbor.environments.base import BaseEnvironment

from pytest_harness.evidence import Inside

_LOOK = (
    'id -un; echo "$HOME"; echo "${LC_ALL:-${LC_CTYPE:-$LANG}}"; date +%z; umask; date +%s.%N; '
    "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | tr '\\n' ' '; echo; tail -n +2 /proc/net/route | wc -l"
)


async def look_inside(environment: BaseEnvironment) -> Inside | None:
    """What a command of the agent's user finds; None if it could not look."""
    before = time.time()
    answer = await environment.exec(_LOOK)
    after = time.time()
    lines = (answer.stdout or "").splitlines()
    if len(lines) != 8:
        return None
    user, home, locale, offset, umask, moment, interfaces, routes = lines
    return Inside(
        user=user,
        home=home,
        locale=locale,
        utc_offset=offset,
        umask=umask,
        interfaces=tuple(sorted(interfaces.split())),
        routes=int(routes),
        clock_ahead=_beyond(float(moment), before, after),
    )


def _beyond(moment: float, first: float, last: float) -> float:
    """How far a moment is outside of the time in which it was, negative where it is too early."""
    return moment - min(max(moment, first), last)
