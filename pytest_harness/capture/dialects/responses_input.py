"""Input items of the Responses dialect as chat messages.

An engine turn comes back as several items: reasoning, a message, calls. They become one assistant message again: items whose ids name the
same turn belong together, wherever the results of its calls stand; where ids do not tell, items that can follow each other in one turn do.
Roles stay in place. ``developer`` is told as ``system``: the templates of open models leave out a role they do not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_harness.capture.dialects.base import RefusalError
from pytest_harness.capture.dialects.neutral import (
    Json,
    assistant_message,
    content_of,
    expect,
    image_part,
    join,
    text_part,
    told,
    tool_call,
    tool_message,
)
from pytest_harness.capture.dialects.responses_opaque import turn_of, unseal
from pytest_harness.capture.dialects.responses_tools import Toolbox, custom_arguments, flat_name

_ROLES = {"user": "user", "system": "system", "developer": "system"}
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def read_input(items: object, toolbox: Toolbox, note: Callable[[str], None]) -> list[Json]:
    """The messages of a request's ``input``; tools that an item brings go into the toolbox. Raises RefusalError."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    conversation = _Conversation(toolbox, note)
    for number, item in enumerate(expect(items, list, "input")):
        conversation.take(expect(item, dict, f"input[{number}]"), f"input[{number}]")
    return conversation.messages


@dataclass
class _Turn:
    """An assistant message as its items come in. ``mark`` names the engine turn, where an id told it."""

    mark: str | None = None
    reasoning: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    answered: bool = False
    """Results of its calls have come."""

    def goes_on_with(self, kind: Literal["reasoning", "message", "call"], mark: str | None) -> bool:
        """Whether an item belongs to this turn."""
        if mark is not None and self.mark is not None:
            return mark == self.mark
        if self.answered:
            return False
        if kind == "reasoning":
            return not self.texts and not self.calls
        # A text between a call and its result can only be of the same turn.
        return kind == "call" or not self.texts or bool(self.calls)

    def message(self) -> Json | None:
        """The message; None if there is nothing in it."""
        if not self.reasoning and not self.texts and not self.calls:
            return None
        return assistant_message(join(self.texts), join(self.reasoning), self.calls)


class _Conversation:
    def __init__(self, toolbox: Toolbox, note: Callable[[str], None]) -> None:
        self._toolbox = toolbox
        self._note = note
        self._entries: list[Json | _Turn] = []
        self._turn: _Turn | None = None

    @property
    def messages(self) -> list[Json]:
        told = (entry.message() if isinstance(entry, _Turn) else entry for entry in self._entries)
        return [message for message in told if message is not None]

    def take(self, item: Json, where: str) -> None:
        kind = item.get("type")
        if kind == "message" or (kind is None and "role" in item):
            self._message(item, where)
        elif kind == "reasoning":
            self._open(item, "reasoning").reasoning += self._reasoning(item, where)
        elif kind == "function_call":
            self._call(item, expect(item.get("arguments"), str, f"{where}.arguments"), where)
        elif kind == "custom_tool_call":
            self._call(item, custom_arguments(item, expect(item.get("input"), str, f"{where}.input")), where)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._result(item, where)
        elif kind == "additional_tools":
            self._toolbox.add(item.get("tools"), f"{where}.tools")
        elif kind == "item_reference" or (kind is None and set(item) == {"id"}):
            raise RefusalError(f"{where} is a reference to a stored item, and nothing is stored here; send the item itself", where)
        else:
            raise RefusalError(f"{where} is an item of type {kind}, which cannot be told to this model", where)

    def _message(self, item: Json, where: str) -> None:
        role = item.get("role")
        content = item.get("content")
        if role == "assistant":
            parts = [content] if isinstance(content, str) else self._texts(content, f"{where}.content")
            self._open(item, "message").texts.append("".join(parts))
            return
        if role not in _ROLES:
            raise RefusalError(f"{where}.role is {role!r}; it must be user, assistant, system or developer", f"{where}.role")
        self._turn = None
        self._entries.append({"role": _ROLES[role], "content": self._content(content, f"{where}.content")})

    def _call(self, item: Json, arguments: str, where: str) -> None:
        name = flat_name(expect(item.get("name"), str, f"{where}.name"), item.get("namespace"))
        call_id = expect(item.get("call_id"), str, f"{where}.call_id")
        self._open(item, "call").calls.append(tool_call(call_id, name, arguments))

    def _result(self, item: Json, where: str) -> None:
        call_id = expect(item.get("call_id"), str, f"{where}.call_id")
        self._entries.append(tool_message(call_id, self._content(item.get("output"), f"{where}.output")))
        if self._turn is not None:
            self._turn.answered = True

    def _open(self, item: Json, kind: Literal["reasoning", "message", "call"]) -> _Turn:
        mark = turn_of(item.get("id"))
        if self._turn is None or not self._turn.goes_on_with(kind, mark):
            self._turn = _Turn()
            self._entries.append(self._turn)
        self._turn.mark = self._turn.mark or mark
        return self._turn

    def _reasoning(self, item: Json, where: str) -> list[str]:
        """The reasoning in its most exact form: sealed, else as it was, else its summary."""
        sealed = item.get("encrypted_content")
        if sealed is not None:
            text = unseal(expect(sealed, str, f"{where}.encrypted_content"))
            if text is not None:
                return [text]
        for name in ("content", "summary"):
            texts = self._texts(item.get(name) or [], f"{where}.{name}")
            if texts:
                return texts
        if sealed is not None:
            message = f"{where}.encrypted_content is not one that was made here, so it cannot be read; leave the item out"
            raise RefusalError(message, f"{where}.encrypted_content")
        return []

    def _texts(self, parts: object, where: str) -> list[str]:
        """Parts that can only be text."""
        texts = []
        for number, part in enumerate(expect(parts, list, where)):
            content = self._part(expect(part, dict, f"{where}[{number}]"), f"{where}[{number}]")
            if content["type"] != "text":
                raise RefusalError(f"{where}[{number}] must be text", f"{where}[{number}]")
            texts.append(content["text"])
        return texts

    def _content(self, content: object, where: str) -> str | list[Json]:
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise RefusalError(f"{where} is {told(content)}; it must be a string or a list of parts", where)
        places = [f"{where}[{number}]" for number in range(len(content))]
        return content_of([self._part(expect(part, dict, place), place) for part, place in zip(content, places, strict=True)])

    def _part(self, part: dict[str, Any], where: str) -> Json:
        kind = part.get("type")
        if kind in _TEXTS:
            return text_part(expect(part.get("text"), str, f"{where}.text"))
        if kind == "refusal":
            return text_part(expect(part.get("refusal"), str, f"{where}.refusal"))
        if kind == "input_image":
            return self._image(part, where)
        if kind == "input_audio":
            return {"type": "input_audio", "input_audio": expect(part.get("input_audio"), dict, f"{where}.input_audio")}
        raise RefusalError(f"{where} is a part of type {kind}, which cannot be told to this model", where)

    def _image(self, part: Json, where: str) -> Json:
        if part.get("file_id") is not None:
            raise RefusalError(f"{where}.file_id names a stored file, and nothing is stored here; send image_url", f"{where}.file_id")
        detail = part.get("detail")
        if detail not in (None, "auto", "low", "high"):
            self._note(f"{where}.detail {detail} is unknown to chat completions, so the engine is not told")
            detail = None
        return image_part(expect(part.get("image_url"), str, f"{where}.image_url"), detail)
