"""What the suite asks of a capture proxy, whatever it is made of: start, sessions, what was captured, stop.

Write a subclass for a proxy of your own and name it: ``pytest --proxy=my_module:MyProxy``. What a proxy cannot do, its adapter refuses with
``NotExercised`` and a reason; the requirements that need it are then told as not exercised. ``AdapterError`` is for what is wrong with the
adapter or its surroundings, never for what the proxy does wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pytest_harness.wire.loading import AdapterError, load_subject
from pytest_harness.wire.outcome import NotExercised

DIALECTS = ("chat", "responses", "messages", "gemini")
_SHIPPED = {"bundled": "pytest_harness.wire.bundled:BundledProxy", "openenv": "pytest_harness.wire.openenv:OpenEnvProxy"}


@dataclass(frozen=True)
class Engine:
    """The engine that a proxy is to stand in front of. ``url`` has no path; ``api_key`` is a secret of the proxy's operator."""

    url: str
    model: str
    api_key: str = field(repr=False)


@dataclass(frozen=True)
class ProxySession:
    """A session of the proxy: the key that its harness presents, and the base URL that the vendor's SDK of each dialect is given.

    ``root`` is the proxy's own address, without a path. ``handle`` is the adapter's own and is never looked at by a test.
    """

    key: str = field(repr=False)
    root: str
    base_urls: Mapping[str, str]
    handle: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class CapturedSample:
    """What was captured of one choice; None is what the proxy says it does not have."""

    token_ids: tuple[Any, ...] | None
    logprobs: tuple[Any, ...] | None
    finish_reason: str | None


@dataclass(frozen=True)
class CapturedCall:
    """One call that the proxy offers for training.

    ``delivered`` says whether the harness got the reply, None if the proxy does not tell. A call without a whole reply is left out, or has
    ``complete`` false.
    """

    prompt_ids: tuple[Any, ...] | None
    samples: tuple[CapturedSample, ...]
    complete: bool = True
    delivered: bool | None = None
    notes: tuple[str, ...] = ()
    """What the proxy says of what it could not pass on to the engine."""


class ProxyAdapter(ABC):
    """One capture proxy under test. The suite starts it once and stops it once; sessions may be made from any thread."""

    name: ClassVar[str]
    dialects: frozenset[str] = frozenset({"chat"})
    """Which of ``chat``, ``responses``, ``messages`` and ``gemini`` it serves."""

    @abstractmethod
    def start(self, engine: Engine, folder: Path) -> None:
        """Start it in front of the engine; ``folder`` is empty and its own. Raises AdapterError."""

    @abstractmethod
    def create_session(self) -> ProxySession:
        """A new session with a key of its own."""

    @abstractmethod
    def calls(self, session: ProxySession) -> Sequence[CapturedCall]:
        """What is offered for training of this session now, in order of arrival."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it; nothing stays behind. Called even if ``start`` failed."""

    def export(self, session: ProxySession) -> bytes:  # noqa: ARG002 - a subclass needs it
        """All that is kept or given out of the session, as bytes: it is searched for secrets."""
        raise NotExercised(f"the adapter of {self.name} cannot give out all that is kept of a session")

    def delete_session(self, session: ProxySession) -> None:  # noqa: ARG002 - a subclass needs it
        """End the session: its key must be unknown from now on."""
        raise NotExercised(f"the adapter of {self.name} cannot delete a session")

    def versions(self) -> dict[str, str]:
        """The versions of what is under test, for the report."""
        return {}


def load_adapter(spec: str) -> ProxyAdapter:
    """The adapter of ``bundled``, ``openenv`` or ``module:Class``. Raises AdapterError."""
    if "://" in spec:
        raise AdapterError(
            f"--proxy {spec}: a URL does not say how to make sessions and read captures; write an adapter class and name it as module:Class"
        )
    return load_subject("--proxy", spec, _SHIPPED, ProxyAdapter)  # type: ignore[type-abstract]  # only compared with
