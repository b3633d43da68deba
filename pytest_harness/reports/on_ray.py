"""Judges evidence on a cluster. What is said of a rollout is what would be said here: judging is pure, so a lost node costs time only."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pytest_harness.cluster import Cluster, connected
from pytest_harness.contract import Judgement, Validity
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
    for evidence, (validity, judgements) in cluster.each(judgement_of, evidences, shared=(shared,)):
        yield Rollout(evidence, validity, judgements)


def judgement_of(evidence: Evidence, catalogue: bytes) -> tuple[Validity, tuple[Judgement, ...]]:
    """On a node: what is said of it, without the evidence, which whoever asks has."""
    rollout = Rollout.of(evidence, pickle.loads(catalogue))  # noqa: S301 (it comes with the call)
    return rollout.validity, rollout.judgements
