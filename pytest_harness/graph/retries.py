"""Which calls are retries of which: a stated rule, not a guess.

Two calls say the same if dialect, method, path and body are equal byte for byte. A call is a **retry** of an earlier one that says the
same, and makes one turn with it, if

1. both carry the same idempotency key, or
2. it carries a retry count of an SDK above that of the earlier one, or
3. the earlier one failed, or its reply is not known to have reached the harness.

Two different idempotency keys make two calls two, whatever else they say; an equal key over different requests means nothing. A
call is retried once at most, so a chain of retries is a chain; of several candidates a failed one comes first, then the latest.
Everything else that says the same, such as a compaction that sends the same notes again, is a genuine repeat and a turn of its own:
an equal body alone is never a retry.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from pytest_harness.evidence.model import Call

KEY_HEADERS = ("idempotency-key", "x-idempotency-key")
COUNT_HEADERS = ("x-stainless-retry-count", "x-retry-count", "x-retry-attempt")
"""The SDKs of OpenAI and Anthropic are made by Stainless and count from 0."""

_COUNT = re.compile(r"[0-9]{1,6}")


def superseded(calls: Iterable[Call]) -> dict[int, int]:
    """The calls that were retried: the index of each, and that of the call that retries it."""
    groups: dict[tuple[str, ...], _Group] = defaultdict(_Group)
    found: dict[int, int] = {}
    for call in sorted(calls, key=lambda call: call.index):
        group = groups[call.dialect, call.method, call.path, call.received.body]
        candidates = [before for before in group.candidates(call) if before.index not in found and _retries(call, before)]
        if candidates:
            found[max(candidates, key=lambda before: (not _arrived(before), before.index)).index] = call.index
        group.add(call)
    return found


class _Group:
    """Calls that say the same."""

    def __init__(self) -> None:
        self._all: list[Call] = []
        self._failed: list[Call] = []

    def add(self, call: Call) -> None:
        self._all.append(call)
        if not _arrived(call):
            self._failed.append(call)

    def candidates(self, call: Call) -> list[Call]:
        """A call without a mark can only retry one that failed; so many repeats cost no more than each one does."""
        headers = call.received.headers
        return self._all if _key(headers) is not None or _count(headers) else self._failed


def _retries(call: Call, before: Call) -> bool:
    key, key_before = _key(call.received.headers), _key(before.received.headers)
    if key is not None and key_before is not None:
        return key == key_before
    return _count(call.received.headers) > _count(before.received.headers) or not _arrived(before)


def _arrived(call: Call) -> bool:
    """Whether the harness is known to have got a whole reply. A stop reply of the proxy is one."""
    return call.outcome in ("complete", "budget_stop") and call.delivery == "delivered"


def _key(headers: Mapping[str, str]) -> str | None:
    return next((headers[name] for name in KEY_HEADERS if headers.get(name)), None)


def _count(headers: Mapping[str, str]) -> int:
    """The SDK's retry count; 0 where there is none, or none that is a number."""
    values = (headers.get(name, "") for name in COUNT_HEADERS)
    return max((int(value) for value in values if _COUNT.fullmatch(value)), default=0)
