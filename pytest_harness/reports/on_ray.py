"""Judges evidence on a cluster. What is said of a rollout is what would be said here: judging is pure, so a lost node costs time only."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pytest_harness.cluster import Cluster, connected
from pytest_harness.evidence import Evidence
from pytest_harness.reports.again import Judges
from pytest_harness.requirements import Catalogue
from pytest_harness.verdict import Rollout


@contextmanager
def judging_on(address: str) -> Iterator[Judges]:
    """What judges on the cluster at this address. Raises ClusterError."""
    with connected(address) as cluster:
        yield lambda evidences, catalogue: _judged(cluster, evidences, catalogue)


def _judged(cluster: Cluster, evidences: Iterable[Evidence], catalogue: Catalogue) -> Iterator[Rollout]:
    shared = cluster.share(pickle.dumps(catalogue))
    for _, rollout in cluster.each(judged, evidences, shared=(shared,)):
        yield rollout


def judged(evidence: Evidence, catalogue: bytes) -> Rollout:
    """On a node: what is said of it."""
    return Rollout.of(evidence, pickle.loads(catalogue))  # noqa: S301 (it comes with the call)
