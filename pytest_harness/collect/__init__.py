"""Collects many rollouts, resumably, and holds collectors, ours and others', to one set of rules.

``collector`` knows nothing of rollouts: it runs a function for each task and attempt and keeps the ledger. ``rollouts`` gives it the real
one. ``adapter`` is what the suite asks of any collector.
"""

from pytest_harness.collect.collector import CollectError, Collection, Episode, Interrupted, Plan, Result, Task, collect
from pytest_harness.collect.ledger import LEDGER, Ledger, LedgerError, Line
from pytest_harness.collect.tally import Tally

__all__ = [
    "LEDGER",
    "CollectError",
    "Collection",
    "Episode",
    "Interrupted",
    "Ledger",
    "LedgerError",
    "Line",
    "Plan",
    "Result",
    "Tally",
    "Task",
    "collect",
]
