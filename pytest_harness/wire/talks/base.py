"""What a conversation is in any dialect: it is asked, it says, and its history is what a harness would send back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_harness.wire.adapter import ProxySession
from pytest_harness.wire.exchanges import ExchangeLog
from pytest_harness.wire.outcome import Broken
from pytest_harness.wire.upstream import SHELL

Finish = Literal["stop", "length", "tool_calls"]

TIMEOUT_SEC = 25.0
"""For every wait of an SDK: longer than the back-off of a proxy that tries again by itself."""
SHELL_DESCRIPTION = "Run a shell command."
SHELL_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the SDK hands it out; ``id`` is None where the dialect has none."""

    id: str | None
    name: str
    arguments: Any


@dataclass(frozen=True)
class Said:
    """A reply as the SDK hands it out, in words that all dialects have."""

    text: str
    calls: tuple[ToolCall, ...]
    finish: str
    prompt_tokens: int | None
    sampled_tokens: int | None

    @property
    def content(self) -> tuple[str, tuple[tuple[str, Any], ...], str]:
        """What must be the same however it was told: everything but ids and counts."""
        return self.text, tuple((call.name, call.arguments) for call in self.calls), self.finish


class SdkError(Broken):
    """The SDK raised; ``status`` is that of the reply, None if there was none or the SDK does not tell."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("a reply that the vendor's SDK accepts", f"{type(cause).__module__}.{type(cause).__name__}: {cause}")
        self.cause = cause
        status = getattr(cause, "status_code", getattr(cause, "code", None))
        self.status = status if isinstance(status, int) else None
        response = getattr(cause, "response", None)
        self.headers: dict[str, str] = {name.lower(): value for name, value in dict(getattr(response, "headers", None) or {}).items()}


class Talk(ABC):
    """One conversation. ``history`` is in the dialect's own shape."""

    strict = False
    """Whether a stream is read with the helper that puts the SDK's final reply together, where the SDK has another way too."""
    limit_name: str
    """What the dialect calls the limit of sampled tokens."""

    def __init__(self, session: ProxySession, log: ExchangeLog, *, system: str | None, tools: bool, model: str) -> None:
        self.session = session
        self.system = system
        self.tools = tools
        self.model = model
        self.history: list[Any] = []
        self.last: Said | None = None
        self._connect(log)

    @abstractmethod
    def _connect(self, log: ExchangeLog) -> None:
        """Make the SDK's client, without retries."""

    @abstractmethod
    def close(self) -> None:
        """Close the client."""

    @abstractmethod
    def user(self, text: str) -> None:
        """Say something as the user."""

    @abstractmethod
    def results(self, texts: Sequence[str]) -> None:
        """Answer the calls of the last reply, in order."""

    @abstractmethod
    def _ask(self, extra: dict[str, Any]) -> Said:
        """Ask for a whole reply and append it to the history as it came."""

    @abstractmethod
    def _ask_streamed(self, extra: dict[str, Any]) -> Said:
        """Likewise streamed, put together by the SDK."""

    @abstractmethod
    def deltas(self) -> Iterator[str]:
        """Ask for a stream and give its pieces of text as they come. The history stays as it is."""

    def ask(self, *, streamed: bool = False, limit: int | None = None, **extra: Any) -> Said:
        """The reply to the history; ``extra`` are fields of the request. Raises SdkError for whatever the SDK raises."""
        if limit is not None:
            extra[self.limit_name] = limit
        self.last = self.guard(lambda: self._ask_streamed(extra) if streamed else self._ask(extra))
        return self.last

    def guard[T](self, action: Callable[[], T]) -> T:
        """Run something of the SDK's. Raises SdkError for whatever it raises."""
        try:
            return action()
        except Broken:
            raise
        except Exception as error:
            raise SdkError(error) from error


def shell_name() -> str:
    """The name of the one tool."""
    return SHELL
