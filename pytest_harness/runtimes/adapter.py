"""What the suite asks of a white-box runtime: run one episode with our model in our environment, and say what was kept of it.

A white-box runtime owns the loop: it asks the model for a step, makes the tool calls that the step announces, and asks again. Write a
subclass of ``RuntimeAdapter`` for one of your own and name it: ``pytest --runtime=my_module:MyRuntime``. The model and the environment are
the suite's; what they were asked is the suite's own witness beside the record that the runtime keeps. What a runtime cannot do, its adapter
refuses with ``NotExercised`` and a reason; ``AdapterError`` is for what is wrong with the adapter or its surroundings, never for what the
runtime does wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from pytest_harness.wire.loading import load_subject
from pytest_harness.wire.outcome import NotExercised

_SHIPPED = {"bundled": "pytest_harness.runtimes.bundled:BundledRuntime", "openenv": "pytest_harness.runtimes.openenv:OpenEnvRuntime"}

Role = Literal["system", "user", "assistant", "tool"]
Ended = Literal["completed", "truncated", "failed"]
Prompts = Literal["turns", "last"]


@dataclass(frozen=True)
class Tool:
    """A tool that an environment offers; ``parameters`` is a JSON Schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {"text": {"type": "string"}}})


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the model wrote it: ``arguments`` is its text, which need not be JSON; ``id`` is None where the engine sent none."""

    id: str | None
    name: str
    arguments: str = "{}"


@dataclass(frozen=True)
class Message:
    """One message of a conversation; ``call_id`` is that of a tool's result."""

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True)
class ModelStep:
    """What the model says in one step: a text, tool calls, or both; with the engine's ids of this step."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    sampled_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


class Model(Protocol):
    """The model under the runtime's loop. The suite's own."""

    def step(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelStep:
        """The model's next step. Raises whatever a client of an engine may raise, TimeoutError among it."""


@dataclass(frozen=True)
class Result:
    """What a tool gave. ``data`` is plain JSON data; ``error`` is the tool's own word that it could not do what it was asked for."""

    data: Any = None
    error: str | None = None
    reward: float | None = None
    done: bool = False


class Environment(Protocol):
    """The environment of one episode. The suite's own."""

    def messages(self) -> tuple[Message, ...]:
        """How the conversation begins."""

    def tools(self) -> tuple[Tool, ...]:
        """What it offers; names that belong to the orchestration may be among it."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """Make a tool call. Raises LookupError for a tool that it does not have, and whatever a tool may raise."""

    def grade(self) -> float | None:
        """The reward of the episode, None if it gives none; asked after the last call."""


@dataclass(frozen=True)
class Limits:
    """Where a runtime must stop by itself; None sets no limit."""

    max_turns: int = 10
    max_calls_per_turn: int | None = None
    max_calls: int | None = None


@dataclass(frozen=True)
class TracedCall:
    """A tool call that the runtime says it made."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Episode:
    """What the runtime keeps of one episode: what a trainer would get. None is what it does not keep.

    ``ended``: ``completed`` (the model stopped calling, or the environment was done), ``truncated`` (a limit), ``failed`` (an error).
    ``prompt_ids``, ``sampled_ids`` and ``logprobs`` are one tuple a turn where the adapter declares ``prompts = "turns"``, and one flat
    tuple where it declares ``"last"``.
    """

    messages: tuple[Message, ...]
    ended: Ended
    reward: float | None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    trace: tuple[TracedCall, ...] | None = None
    prompt_ids: tuple[Any, ...] | None = None
    sampled_ids: tuple[Any, ...] | None = None
    logprobs: tuple[Any, ...] | None = None
    error: str = ""
    """Of a failed episode: what failed."""


class Runtime(Protocol):
    """The loop under test."""

    def run(self, model: Model, environment: Environment, limits: Limits) -> Episode:
        """Run one episode. What the runtime raises is an episode that failed, never an exception of this method."""


class RuntimeAdapter(ABC):
    """One white-box runtime, with or without a collector, under test. The suite starts it once and stops it once."""

    name: ClassVar[str]
    prompts: Prompts = "turns"
    """How an episode's prompt ids are laid out: those of each turn, or those of the last turn alone, which hold all before."""

    def start(self, folder: Path) -> None:  # noqa: B027 - most have nothing to start
        """Start it; ``folder`` is empty and its own. Raises AdapterError."""

    def stop(self) -> None:  # noqa: B027 - likewise
        """Stop it; nothing stays behind. Called even if ``start`` failed."""

    @abstractmethod
    def runtime(self) -> Runtime:
        """The loop."""

    def collector(self) -> Any:
        """What runs many episodes and keeps them."""
        raise NotExercised(f"the adapter of {self.name} names no collector")

    def versions(self) -> dict[str, str]:
        """The versions of what is under test, for the report."""
        return {}


def load_adapter(spec: str) -> RuntimeAdapter:
    """The adapter of ``bundled``, ``openenv`` or ``module:Class``. Raises AdapterError."""
    return load_subject("--runtime", spec, _SHIPPED, RuntimeAdapter)  # type: ignore[type-abstract]  # only compared with
