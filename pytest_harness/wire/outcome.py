"""What a test of the wire suite can say: nothing (it passed), that the proxy broke the requirement, or that it never came to it."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT_SEC = 15.0
"""How long anything that a proxy must do by itself is waited for, unless a test says otherwise."""
_FIRST_PAUSE_SEC, _LONGEST_PAUSE_SEC = 0.005, 0.1
_SHOWN = 400


class Broken(Exception):  # noqa: N818 - it is an answer, not an error of ours
    """The proxy under test broke the requirement: what was expected of it, and what was seen."""

    def __init__(self, expected: str, seen: object) -> None:
        self.expected = expected
        self.seen = shortened(seen)
        super().__init__(f"expected {expected}, seen {self.seen}")


class NotExercised(Exception):  # noqa: N818 - it is an answer, not an error of ours
    """The proxy or its adapter never came to what the requirement is about; the message says why."""


def shortened(value: object) -> str:
    """The value as text for people, its middle left out where it is long."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} … {text[-_SHOWN // 2 :]}"


def expect(condition: object, expected: str, seen: object) -> None:
    """Raise Broken unless the condition holds."""
    if not condition:
        raise Broken(expected, seen)


def same(seen: object, expected: object, what: str) -> None:
    """Raise Broken unless both are equal; ids and texts are told from the first difference on."""
    if seen == expected:
        return
    if isinstance(seen, list | tuple) and isinstance(expected, list | tuple) and len(seen) + len(expected) > 20:
        at = next((n for n, (left, right) in enumerate(zip(seen, expected, strict=False)) if left != right), min(len(seen), len(expected)))
        raise Broken(
            f"{what}: {len(expected)} entries, at {at} {list(expected[at : at + 5])}",
            f"{len(seen)} entries, at {at} {list(seen[at : at + 5])}",
        )
    raise Broken(f"{what}: {shortened(expected)}", seen)


def eventually[T](probe: Callable[[], T], good: Callable[[T], bool], limit_sec: float = LIMIT_SEC) -> T:
    """The probe's first good answer, or its last one when the time is up: the caller says what is wrong with that.

    A probe costs the subject time too, so the pauses between them grow.
    """
    deadline = time.monotonic() + limit_sec
    pause = _FIRST_PAUSE_SEC
    while True:
        answer = probe()
        if good(answer) or time.monotonic() > deadline:
            return answer
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SEC)
