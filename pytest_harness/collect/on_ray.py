"""The episodes of ``harness-conformance rollout --ray``: one Harbor trial each, as a call on some node of the cluster, with its evidence.

A node needs nothing of the machine that asks: the row and the files of the task travel with the call, the harness is installed there as it
is here, and the evidence comes back with the result, or goes where the ``Landing`` is. A node that is lost is a failure of that one try.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pytest_harness.cluster import Cluster
from pytest_harness.collect.collector import CollectError, Result
from pytest_harness.collect.ledger import Line
from pytest_harness.collect.parcels import packed, unpack
from pytest_harness.collect.rollouts import Kind, Rollouts, result_of
from pytest_harness.evidence import read_evidence
from pytest_harness.evidence.store import appearing
from pytest_harness.owners import temporary_folder
from pytest_harness.provision import ProvisionError, provision
from pytest_harness.rollouts.engines import SharedEngine
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.seams.limits import MB

if TYPE_CHECKING:
    from pytest_harness.collect.landing import Landing  # it needs an extra


class NodeError(Exception):
    """A rollout that could not be made where it was to be; the message says why, and names the node."""


@dataclass(frozen=True)
class Order:
    """What a node is asked for. The folder of the task is not there: its files come beside it."""

    spec: RolloutSpec
    harness: str
    """The digest of the harness that it must be."""
    engine: SharedEngine | None
    run_id: str
    requirements: str
    landing: str | None
    """The URL where the evidence is to be brought."""


@dataclass(frozen=True)
class Played:
    """What a node made of it."""

    result: Result
    node: str
    record: bytes | None = field(repr=False)
    """The evidence, packed; None where it was brought elsewhere."""


class RolloutsOnRay(Rollouts):
    """Runs episodes on a cluster, for each calling thread one at a time."""

    def __init__(
        self, kinds: Iterable[Kind], out: Path, cluster: Cluster, *, run_id: str, requirements: str, landing: Landing | None = None
    ) -> None:
        super().__init__(kinds, out, run_id=run_id, requirements=requirements)
        self._cluster = cluster
        self._landing = landing
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._tasks = {name: self._cluster.share(packed(kind.spec.scenario.task)) for name, kind in self._kinds.items()}
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._cluster.give_up()

    def interrupt(self) -> None:
        """The first Ctrl-C: the nodes do not hear it."""
        threading.Thread(target=self._cluster.cancel, daemon=True).start()

    def on_disk(self, line: Line) -> bool:
        """As of evidence here, wherever it was brought."""
        return super().on_disk(line) if self._landing is None else self._landing.on_disk(line)

    def _made(self, spec: RolloutSpec, kind: Kind) -> Result:
        landing = None if self._landing is None else self._landing.url
        order = Order(spec, kind.installed.digest, kind.engine, self._run_id, self._requirements, landing)
        played = self._cluster.run(play, order, shared=(self._tasks[kind.task.name],), memory=memory_of(kind))
        if played.record is not None:
            with appearing(spec.evidence_dir(self._out)) as folder:
                unpack(played.record, folder)
        elif self._landing is not None:
            self._check_landed(self._landing, spec, played)
        return played.result

    def _check_landed(self, landing: Landing, spec: RolloutSpec, played: Played) -> None:
        """A folder of the node's own would look from there like one that all can reach."""
        episode = spec.evidence_dir(Path()).as_posix()
        if landing.mark(episode) != played.result.mark:
            raise CollectError(
                f"--evidence-to {landing.url}: {played.node} has brought the evidence of {episode} there, and it is not there as seen from "
                "here; name a place that every node reaches, and this machine"
            )


def memory_of(kind: Kind) -> int:
    """The bytes of memory that a rollout may take, so that a node never gets more of them than it can carry."""
    return kind.spec.memory_mb * MB


def play(order: Order, task: bytes) -> Played:
    """On a node: one rollout. Raises NodeError, which travels whatever the error was made of."""
    node = socket.gethostname()
    try:
        result, record = _played(order, task)
    except Exception as error:  # noqa: BLE001 (whatever it is, the command tells it)
        raise NodeError(f"{type(error).__name__}: {error} (on {node})") from None
    return Played(result, node, record)


def _played(order: Order, task: bytes) -> tuple[Result, bytes | None]:
    from pytest_harness.rollouts.rollout import run_rollout  # noqa: PLC0415 (Harbor takes a second to import)
    from pytest_harness.sandboxes.bubblewrap import check  # noqa: PLC0415 (it starts a sandbox to see whether it can)

    landing = None if order.landing is None else _landing(order.landing)
    if (reason := check()) is not None:
        raise RuntimeError(reason)
    installed = provision(order.spec.seam)
    if installed.digest != order.harness:
        raise ProvisionError(
            f"{order.spec.seam.name} {installed.version} is not the one that the command has (SHA-256 {installed.digest[:12]}, not "
            f"{order.harness[:12]}); install the same on every node"
        )
    with temporary_folder("rollout") as place:
        folder = place / "task" / order.spec.scenario.task.name
        unpack(task, folder)
        record = run_rollout(
            replace(order.spec, scenario=replace(order.spec.scenario, task=folder)),
            installed,
            evidence_dir=place / "evidence",
            run_id=order.run_id,
            requirements=order.requirements,
            shared=order.engine,
        )
        result = result_of(read_evidence(record))
        if landing is None:
            return result, packed(record)
        landing.bring(record, order.spec.evidence_dir(Path()).as_posix())
        return result, None


def _landing(url: str) -> Landing:
    """Where the evidence goes, looked at before a rollout is made for nothing."""
    from pytest_harness.collect.landing import Landing  # noqa: PLC0415 (an extra)

    landing = Landing(url)
    landing.check()
    return landing
