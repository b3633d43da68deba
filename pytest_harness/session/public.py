"""Sandboxes that are not of ours: which may be asked for, and the public way by which a harness in one reaches this run's attempts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harness.sandboxes.remote import SEE, Remote, RemoteError

if TYPE_CHECKING:
    from pytest_harness.session.plan import Plan
    from pytest_harness.session.progress import Progress

PORT = 8555
"""The loopback port to which a URL of the user's is to lead, where none is chosen."""
LOG = "tunnel.log"


def require_sandboxes(names: Iterable[str], ours: tuple[str, ...]) -> list[str]:
    """The sandboxes of these names, each once. Raises pytest.UsageError, in one sentence, for one that cannot be asked for."""
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name in ours:
            continue
        if (remote := Remote.named(name)) is None:
            raise pytest.UsageError(
                f"--sandbox {name!r} is not known to this version; known: {', '.join(ours)}, the backends that "
                "harness-conformance sandboxes lists, and a class of Harbor's kind as module:Class"
            )
        try:
            remote.require()
        except RemoteError as error:
            raise pytest.UsageError(str(error)) from None
    return chosen


class PublicWay:
    """The hooks of a run's public way: it is opened before any worker starts, and closed when pytest ends."""

    def __init__(self, config: pytest.Config, plan: Plan, progress: Progress) -> None:
        """Raises pytest.UsageError where a way is needed and none is given, or the other way round."""
        self._config = config
        self._plan = plan
        self._progress = progress
        self._url: str | None = config.getoption("harness_public_url")
        self._port: int | None = config.getoption("harness_public_port")
        self._tunnel: str | None = config.getoption("harness_tunnel")
        self._remotes = {spec.sandbox: spec.remote for spec in plan.specs if spec.remote is not None}
        self._needed = sorted({spec.sandbox for spec in plan.specs if spec.needs_public_way})
        self._check()
        self._share(getattr(config, "workerinput", {}).get("harness_way"))

    def _check(self) -> None:
        given = [name for name in ("public-url", "public-port", "tunnel") if self._config.getoption(f"harness_{name.replace('-', '_')}")]
        if given and not self._needed:
            raise pytest.UsageError(
                f"--{given[0]} is for a sandbox that cannot reach this machine's loopback, and none of this run needs it; leave it out"
            )
        if self._url and self._tunnel:
            raise pytest.UsageError("--public-url and --tunnel are two ways to the same place; give one of them")
        if self._tunnel and self._port:
            raise pytest.UsageError("--public-port is for --public-url; a --tunnel is told a free port where it says {port}")
        if self._needed and not self._url and not self._tunnel:
            raise pytest.UsageError(
                f"--sandbox {self._needed[0]} cannot reach the proxy on this machine's loopback: give a URL that leads here with "
                f"--public-url, or a command that makes one with --tunnel; {SEE}"
            )

    def _share(self, text: str | None) -> None:
        if text is not None and self._plan.pool is not None:
            from pytest_harness.capture.front import Way  # noqa: PLC0415 (most runs need none)

            self._plan.pool.way = Way(**json.loads(text))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist the way."""
        if self._plan.pool is not None and self._plan.pool.way is not None:
            node.workerinput["harness_way"] = json.dumps(dataclasses.asdict(self._plan.pool.way))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Ask Harbor's classes whether they can be used, and open the way. Raises pytest.UsageError, in one sentence."""
        if hasattr(self._config, "workerinput") or self._config.option.collectonly:
            return
        try:
            for remote in self._remotes.values():
                remote.ask()
        except RemoteError as error:
            raise pytest.UsageError(str(error)) from None
        if self._needed:
            self._open()

    def _open(self) -> None:
        from pytest_harness.capture.front import Front  # noqa: PLC0415 (most runs need none)
        from pytest_harness.capture.tunnel import TunnelError, check_url, require_url, tunnel  # noqa: PLC0415

        assert self._plan.pool is not None
        stack = ExitStack()
        self._config.add_cleanup(stack.close)
        port = 0 if self._url is None else self._port or PORT
        try:
            url = None if self._url is None else check_url(self._url)
            front = stack.enter_context(Front(port))
            if url is not None:
                require_url(url, front)
            elif self._tunnel is not None:
                log = self._plan.evidence_dir.absolute() / LOG
                with self._progress.waiting("waiting for the tunnel"):
                    url = stack.enter_context(tunnel(self._tunnel, front, log))
        except TunnelError as error:
            raise pytest.UsageError(str(error)) from None
        except OSError as error:
            raise pytest.UsageError(
                f"port {port} of this machine cannot be listened on ({error}); choose another with --public-port"
            ) from None
        assert url is not None
        self._plan.pool.way = front.way(url)
        self._progress.say(f"{url} leads to this run's attempts")
