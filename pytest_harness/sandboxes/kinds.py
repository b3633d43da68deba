"""The kinds of sandbox that a rollout can run in, by the names of ``--sandbox``. Importing this starts nothing and needs no Harbor."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_harness.sandboxes.container_cli import ENGINES

LOCAL = "local"
SANDBOXES = (LOCAL, *ENGINES)


@dataclass(frozen=True)
class Boxing:
    """What is asked of sandboxes in containers; it means nothing to a local one."""

    image: str | None = None
    """An image that the engine has; None for our base image."""
    bake: bool = False
    """Whether the harness is put into an image of its own, instead of being mounted."""


def refusal(kind: str, boxing: Boxing = Boxing()) -> str | None:
    """Why no sandbox of this kind can be started on this machine, in one sentence that says what to do; None if one can. It starts one."""
    from pytest_harness.sandboxes import bubblewrap, containers  # noqa: PLC0415 (a replay needs no sandbox)

    for engine in ENGINES:
        if engine == kind:
            return containers.check(engine, boxing.image)
    return bubblewrap.check()
