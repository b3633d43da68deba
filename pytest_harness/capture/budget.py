"""Budgets of calls and sampled tokens, exact under any concurrency.

The rule of charging: a call is charged when it is admitted, that is right before it is forwarded, whatever becomes of it (an error of
the engine, a disconnect, a retry), so that no loop of retries asks the engine more often than the budget says. A call that is
refused or stopped is not charged. Of the tokens, a call reserves the most that it may sample, and what it did not sample is given back when
it ends; what running calls may still sample counts as used. So neither number is ever exceeded.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol

import msgspec

TOKENS_PER_CALL = 8192
"""What one call may sample under a budget of tokens if it names no limit of its own."""


class BudgetError(Exception):
    """A budget that cannot be; the message says what was wrong and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a session may use; None is no limit. ``tokens`` are sampled tokens, over all calls and choices."""

    calls: int | None = None
    tokens: int | None = None

    @property
    def unlimited(self) -> bool:
        """Whether it limits nothing."""
        return self.calls is None and self.tokens is None

    def __post_init__(self) -> None:
        """Raises BudgetError for a negative limit."""
        for name, limit in (("calls", self.calls), ("tokens", self.tokens)):
            if limit is not None and limit < 0:
                raise BudgetError(f"the budget of {name} is {limit}; give 0 or more, or leave it out for no limit")


UNLIMITED = Budget()


class Spent(msgspec.Struct, frozen=True):
    """What has been used so far. ``tokens`` includes what running calls have reserved."""

    arrived: int = 0
    charged: int = 0
    tokens: int = 0
    stopped: int = 0


class Account(Protocol):
    """Where a session's use is counted. Every method is atomic, over all threads and processes that share the account."""

    def spent(self) -> Spent:
        """The counts so far."""
        ...

    def arrive(self) -> int:
        """The order of arrival of a new call, from 0."""
        ...

    def charge(self, budget: Budget, tokens: int, *, least: int = 1) -> int | None:
        """Charge one call that may sample up to ``tokens``: how many it may indeed, or None if that would be fewer than ``least``."""
        ...

    def give_back(self, tokens: int) -> None:
        """Tokens that were reserved and not sampled."""
        ...

    def rest(self) -> None:
        """Hold nothing open until the next change."""
        ...


def charged(spent: Spent, budget: Budget, tokens: int, least: int) -> tuple[Spent, int | None]:
    """The one rule: what an account is after asking it to charge a call, and what it answers."""
    granted = tokens if budget.tokens is None else min(tokens, budget.tokens - spent.tokens)
    if (budget.calls is not None and spent.charged >= budget.calls) or granted < least:
        return Spent(spent.arrived, spent.charged, spent.tokens, spent.stopped + 1), None
    used = spent.tokens if budget.tokens is None else spent.tokens + granted
    return Spent(spent.arrived, spent.charged + 1, used, spent.stopped), granted


class LocalAccount:
    """An account of one process."""

    __slots__ = ("_lock", "_spent")

    def __init__(self) -> None:
        self._spent = Spent()
        self._lock = threading.Lock()

    def spent(self) -> Spent:
        """The counts so far."""
        return self._spent

    def arrive(self) -> int:
        """The order of arrival of a new call, from 0."""
        with self._lock:
            spent = self._spent
            self._spent = Spent(spent.arrived + 1, spent.charged, spent.tokens, spent.stopped)
            return spent.arrived

    def charge(self, budget: Budget, tokens: int, *, least: int = 1) -> int | None:
        """Charge one call."""
        with self._lock:
            self._spent, granted = charged(self._spent, budget, tokens, least)
            return granted

    def give_back(self, tokens: int) -> None:
        """Tokens that were reserved and not sampled."""
        with self._lock:
            spent = self._spent
            self._spent = Spent(spent.arrived, spent.charged, spent.tokens - tokens, spent.stopped)

    def rest(self) -> None:
        """Nothing is held open."""
