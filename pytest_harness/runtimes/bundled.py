"""The adapter of the runtime that comes with the suite."""

from __future__ import annotations

from pytest_harness import __version__
from pytest_harness.collect.adapter import Collector
from pytest_harness.collect.bundled import BundledCollector
from pytest_harness.runtimes.adapter import Runtime, RuntimeAdapter
from pytest_harness.runtimes.loop import Loop


class BundledRuntime(RuntimeAdapter):
    """``runtimes/loop.py``, in this process."""

    name = "bundled"

    def runtime(self) -> Runtime:
        """The loop."""
        return Loop()

    def collector(self) -> Collector:
        """What ``harness-conformance rollout`` collects with."""
        return BundledCollector()

    def versions(self) -> dict[str, str]:
        """Ours."""
        return {"harness-conformance": __version__}
