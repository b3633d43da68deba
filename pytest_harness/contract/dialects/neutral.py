"""What a conversation, a request and a reply say, whatever dialect they are written in, and how JSON and events of any are read.

Nothing here raises on bad input: what cannot be read is left out or None, and the checks say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_harness.contract.chat_wire import parse_json
from pytest_harness.evidence.model import Message

Json = dict[str, Any]
Role = Literal["system", "user", "assistant", "tool"]
Writing = Literal["text", "value", "free"]
"""How a dialect holds the arguments of a call: as the text that the model wrote, as the JSON value of it, or, where the tool takes free
text, as that text alone."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A part of content that a chat message can only tell by its name, such as a reference to a tool."""

    name: str


@dataclass(frozen=True, slots=True)
class Output:
    """What a function gave, as a JSON object: an ``output`` in it may be told alone."""

    value: Json


Part = str | Mention | Output | Json
"""Text, or what else content holds; a dict is a part as chat completions write it."""


@dataclass(slots=True)
class Made:
    """A tool call. ``names`` are those under which the engine may know its tool."""

    id: Any
    names: tuple[Any, ...]
    arguments: str
    writing: Writing = "text"


@dataclass(slots=True)
class Entry:
    """One message of a conversation, or the result of one call."""

    role: Role
    parts: list[Part] = field(default_factory=list)
    reasoning: frozenset[str] | None = frozenset({""})
    """What the reasoning may be, where the dialect holds it in several forms; None where it is sealed and anything may be in it."""
    calls: list[Made] = field(default_factory=list)
    answers: Any = None
    """The id of the call, of a result."""
    marked: bool = False
    """The result is an error's, which chat completions can only say in front of its text."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool on offer. ``schema`` is None where the dialect says none or a chat tool cannot say it in the same words."""

    names: tuple[Any, ...]
    description: str
    schema: Any = None
    within: bool = False
    """The engine may be told more in the description: what is said of its namespace, or which grammar its input has."""


@dataclass(slots=True)
class Asked:
    """A request. ``fields`` are those of chat completions, with their values, that it says in words of its own."""

    entries: list[Entry] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    optional_tools: tuple[Any, ...] = ()
    """Names of tools that need not be offered, as the request allows no call of them."""
    streamed: bool = False
    fields: Json = field(default_factory=dict)
    demands: set[str] = field(default_factory=set)
    """Fields of chat completions that it says in a form too different to be compared: they must be there."""
    allows: set[str] = field(default_factory=set)
    """Fields of chat completions that come of it where the engine has such a thing."""
    own_ids: bool = False
    """The harness may have named the calls itself, and its names need only agree with each other."""
    itemised: bool = False
    """A turn is written as items, between which the results of its calls may stand."""


@dataclass(slots=True)
class Said:
    """One choice of a reply."""

    text: str = ""
    reasoning: str = ""
    calls: list[Made] = field(default_factory=list)
    finish: Any = None
    """In the dialect's word."""
    means: frozenset[str] = frozenset()
    """The finish reasons of an engine of which the word may come."""
    untold: frozenset[str] = frozenset()
    """Of which it may come where calls of the engine were left out because the dialect cannot say them; empty where none may be."""
    hides_reasoning: bool = False


@dataclass(slots=True)
class Given:
    """A whole reply; ``usage`` is in the words of chat completions."""

    id: Any = None
    choices: dict[int, Said] = field(default_factory=dict)
    usage: Json | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream: ``name`` is that of its ``event:`` line, ``data`` the JSON object, None where it is none."""

    name: str | None
    data: Json | None
    text: str

    @property
    def kind(self) -> str:
        """The ``type`` in the data, empty where there is none."""
        return text((self.data or {}).get("type"))


def events(message: Message | None) -> Iterator[Event]:
    """The server-sent events of a body in order, comments left out."""
    if message is None:
        return
    for block in message.body.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        rows = [row.partition(":") for row in block.split("\n")]
        data = [value.removeprefix(" ") for name, _, value in rows if name == "data"]
        names = [value.removeprefix(" ") for name, _, value in rows if name == "event"]
        if data:
            value = parse_json("\n".join(data))
            yield Event(names[-1] if names else None, value if isinstance(value, dict) else None, "\n".join(data))


def is_document(message: Message | None) -> bool:
    """Whether a body is one JSON object and no stream."""
    return message is not None and message.body.lstrip().startswith("{")


def text(value: Any) -> str:
    """The string, empty if it is none."""
    return value if isinstance(value, str) else ""


def fields(value: Any) -> Json:
    """The object, empty if it is none."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """The list, empty if it is none."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[Json]:
    """The objects of a list, none if it is none."""
    return [entry for entry in listed(value) if isinstance(entry, dict)]


def place(value: Any, otherwise: int) -> int:
    """The index, another one if it is none."""
    return value if isinstance(value, int) else otherwise


def count(value: Any) -> int | None:
    """The number of tokens, None if it is none."""
    return value if type(value) is int else None


def usage(prompt: int | None, completion: int | None, cached: int | None) -> Json:
    """Counts in the words of chat completions."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": {"cached_tokens": cached}}


def noted(notes: tuple[str, ...], *words: str) -> bool:
    """Whether one of the notes has all of these words."""
    return any(all(word in note for word in words) for note in notes)
