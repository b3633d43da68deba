"""Deals the attempts of a run out to the workers of xdist, each with all of its tests.

A worker that waits for another's rollout does nothing meanwhile, and one that judges what another rolled out has to read it again. So the
tests of an attempt stay together: it is rolled out, judged and forgotten before the next. xdist's own ``loadgroup`` would do that too, but
a worker heeds it only where the command line itself names it, and it changes the names of the tests.
https://github.com/pytest-dev/pytest-xdist/blob/v3.8.0/src/xdist/remote.py#L393
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import SupportsIndex

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from pytest_harness.session.plan import Attempt
from pytest_harness.session.standard import parameters_of


class AttemptScheduling(LoadScopeScheduling):
    """xdist's scheduling by scope, where a scope is an attempt.

    ``tests`` are the standard ones by name; a host's own test of an attempt, with the same parameters, goes with them, and every other test
    by itself. xdist looks through all tests of the run for each that ended, minutes for a whole table; here, through those under way.
    """

    def __init__(self, config: pytest.Config, log: Producer | None, tests: Mapping[str, Attempt]) -> None:
        super().__init__(config, log)
        self._attempts = {parameters_of(name): attempt.id for name, attempt in tests.items()}

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Hear which tests a worker has."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Collection(collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Hear that a test has ended, and forget its attempt with the last of them."""
        super().mark_test_complete(node, item_index, duration)
        units, scope = self.assigned_work[node], self._split_scope(self.registered_collections[node][item_index])
        if all(units[scope].values()):
            del units[scope]

    def _split_scope(self, nodeid: str) -> str:
        return self._attempts.get(parameters_of(nodeid), nodeid)


class _Collection(list[str]):
    """The tests of a worker, which know their places."""

    def __init__(self, tests: Sequence[str]) -> None:
        super().__init__(tests)
        self._places = {test: place for place, test in enumerate(tests)}

    def index(self, test: str, start: SupportsIndex = 0, stop: SupportsIndex = sys.maxsize, /) -> int:
        """Where a test is."""
        return self._places[test] if (start, stop) == (0, sys.maxsize) else super().index(test, start, stop)
