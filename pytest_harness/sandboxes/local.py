"""The local sandbox as a Harbor environment: ``EnvironmentConfig(import_path=LOCAL_SANDBOX, kwargs={...})``.

It is made from the host's own programs (see ``layout.py``), not from an image: ``docker_image`` is not pulled. A task that needs more than
the host's ``/usr`` needs another sandbox. Its root is unprivileged outside.
"""

from __future__ import annotations

from typing import override

from pytest_harness.sandboxes.bubblewrap import Sandbox, check
from pytest_harness.sandboxes.channel import RunningSandbox
from pytest_harness.sandboxes.environment import ERROR_POLICY, HarborSandbox
from pytest_harness.sandboxes.layout import Layout

__all__ = ["ERROR_POLICY", "LOCAL_SANDBOX", "LocalSandbox"]

LOCAL_SANDBOX = "pytest_harness.sandboxes.local:LocalSandbox"


class LocalSandbox(HarborSandbox):
    """One bubblewrap sandbox."""

    @staticmethod
    @override
    def type() -> str:
        return "local"

    @classmethod
    @override
    def refusal(cls) -> str | None:
        return check()

    @override
    def run(self, layout: Layout) -> RunningSandbox:
        return Sandbox.start(self.session_id, layout, self.options.limits)
