"""How a rollout gets hold of a sandbox that Harbor starts for it.

Harbor is told only an import path and plain options. A rollout opens a gate with a callback, puts the gate's key into the options
(``gate``), and is called as soon as the sandbox exists, before anything of the task or the agent is done in it::

    with gate(lambda sandbox: server.listen(sandbox.listener(8555))) as key:
        environment = EnvironmentConfig(import_path=LOCAL_SANDBOX, kwargs={"gate": key, ...})
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pytest_harness.sandboxes.channel import RunningSandbox, SandboxError

_gates: dict[str, Callable[[RunningSandbox], None]] = {}


@contextmanager
def gate(on_start: Callable[[RunningSandbox], None]) -> Iterator[str]:
    """Call ``on_start`` with every sandbox started under this key while the context lasts. What it raises fails the start."""
    key = secrets.token_hex(8)
    _gates[key] = on_start
    try:
        yield key
    finally:
        del _gates[key]


def pass_gate(key: str, sandbox: RunningSandbox) -> None:
    """Announce a started sandbox. Raises SandboxError for an unknown key."""
    if key not in _gates:
        raise SandboxError(f"no gate {key!r} is open in this process; options with a gate are good only while its rollout runs")
    _gates[key](sandbox)
