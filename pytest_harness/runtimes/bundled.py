"""The adapter of the runtime that comes with the suite."""

from __future__ import annotations

from pytest_harness import __version__
from pytest_harness.runtimes.adapter import Runtime, RuntimeAdapter
from pytest_harness.runtimes.loop import Loop


class BundledRuntime(RuntimeAdapter):
    """``runtimes/loop.py``, in this process."""

    name = "bundled"

    def runtime(self) -> Runtime:
        """The loop."""
        return Loop()

    def versions(self) -> dict[str, str]:
        """Ours."""
        return {"harness-conformance": __version__}
