"""What can be made to happen at an endpoint, found out once: that it says a given text, and that it makes tool calls.

A model with random weights says nonsense. Where the engine takes vLLM's ``structured_outputs`` it is told what to say; how its own
template writes a tool call is learned from ``/tokenize`` and ``/detokenize``. Elsewhere the model is asked in words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pytest_harness.endpoint.asking import PROMPT, Asking
from pytest_harness.endpoint.reply import Said
from pytest_harness.wire.outcome import Broken, NotExercised, shortened

FORCED = "structured_outputs"
TEXT = "The pear is ripe, the plum is not; 完了 ✓, they said."
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {"command": command},
                "required": ["command"],
                "additionalProperties": False,
            },
        },
    }
    for name, description, command in (
        ("bash", "Run a command in a shell.", {"type": "string"}),
        ("look", "Look at something.", {"type": "string", "enum": ["pear", "plum"]}),
    )
]
STRICT_TOOLS = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]
"""The same, their arguments held to their schema: vLLM then forces calls in its own way, which leaves no room for ours."""
CALLS = (("bash", {"command": "echo 'pear' | tee \"é ✓.txt\""}), ("bash", {"command": "echo plum"}), ("bash", {"command": "ls -la"}))
"""What the engine is made to call; as many of them as a case needs."""
_ASKED = "Use the tool bash to run the shell command `echo pear`. If you can, call it once more, in the same turn, for `echo plum`."
_MANY = 512

Call = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Way:
    """How a request is made to be answered as a case needs it."""

    fields: dict[str, Any]
    text: str | None = None
    """What is sampled: the content, or calls as the template writes them; None where the model says what it likes."""
    calls: tuple[Call, ...] = ()
    """The calls that it must have; none where the model makes those it likes."""


class Abilities:
    """Of one endpoint; each is measured when it is first needed."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._forced: dict[int, Way | None] = {}
        self._calling: dict[int, Way | str] = {}

    @cached_property
    def steers(self) -> bool:
        """Whether a request can say what is to be said."""
        try:
            said = self._asking.ask(**forced("pear"))
        except Broken:
            return False
        return [choice.content for choice in said.choices] == ["pear"]

    @cached_property
    def max_model_len(self) -> int | None:
        """The longest context, where the list of models tells it."""
        document = self._asking.get(self._asking.url("/models"))
        cards = document.get("data") if isinstance(document, dict) else None
        lengths = [
            card.get("max_model_len") for card in cards or () if isinstance(card, dict) and card.get("id") == self._asking.endpoint.model
        ]
        return lengths[0] if lengths and isinstance(lengths[0], int) else None

    def text(self, words: str = TEXT) -> Way:
        """How to get a plain text."""
        return Way(forced(words), words) if self.steers else Way({"temperature": 0.0})

    def written(self, calls: Sequence[Call]) -> str | None:
        """Calls as the model's template writes them, between the generation prompt and the end of the turn; None if that cannot be had."""
        asked = {"role": "user", "content": PROMPT}
        made = [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}
            for number, (name, arguments) in enumerate(calls)
        ]
        start = self._rendered([asked], generate=True)
        called = self._rendered([asked, {"role": "assistant", "content": "", "tool_calls": made}])
        spoken = self._rendered([asked, {"role": "assistant", "content": "pear"}])
        if start is None or called is None or spoken is None or not (called.startswith(start) and spoken.startswith(start)):
            return None
        called, spoken = called.removeprefix(start), spoken.removeprefix(start)
        end = agreed(called[::-1], spoken[::-1])
        text = called[: len(called) - end]
        return text if all(name in text for name, _ in calls) else None

    def _rendered(self, messages: list[dict[str, Any]], *, generate: bool = False) -> str | None:
        ids = self._asking.tokenized(messages, TOOLS, generate=generate)
        return None if ids is None else self._asking.decoded(ids)

    def forced_calls(self, count: int) -> Way | None:
        """How to make the model sample calls in the format of its own template; None where that cannot be done."""
        if count not in self._forced:
            text = self.written(CALLS[:count]) if self.steers else None
            fields = {} if text is None else {**forced(text), "tools": TOOLS, "max_tokens": _MANY}
            self._forced[count] = Way(fields, text, CALLS[:count]) if fields else None
        return self._forced[count]

    def marked(self, way: Way, ids: Sequence[Any]) -> bool:
        """Whether the marks around forced calls were sampled as the ids that the tokenizer has for them, which many parsers look for.

        A model that is forced may sample the same text in other pieces.
        """
        whole = self._asking.encoded(way.text or "")
        return whole is not None and len(ids) > 0 and ids[0] == whole[0] and whole[-1] in ids

    def calling(self, count: int = 1) -> Way:
        """How to get at least so many calls in one reply. Raises NotExercised where none come."""
        if count not in self._calling:
            self._calling[count] = self._measured(count) if self.refusal is None else self.refusal
        found = self._calling[count]
        if isinstance(found, str):
            raise NotExercised(found)
        return found

    def _measured(self, count: int) -> Way | str:
        """A way that gives so many calls, or why there is none."""
        tried = []
        for way in (self.forced_calls(count), _IN_WORDS):
            if way is None:
                continue
            try:
                said = self._asking.ask(**way.fields)
            except Broken as broken:
                tried.append(broken.seen)
                continue
            if len(said.only.calls) >= count:
                return way
            tried.append(f"{len(said.only.calls)} calls and the text {shortened(said.only.content)!r}")
        return f"the model could not be brought to make {count} {'call' if count == 1 else 'calls'} in one reply: {'; '.join(tried)}"

    @cached_property
    def refusal(self) -> str | None:
        """Why a request with tools is refused, whole or streamed; None where neither is."""
        for streamed in (False, True):
            reply = self._asking.post(tools=TOOLS, max_tokens=1, stream=streamed)
            if reply.status != 200:
                return f"the engine refuses tools (status {reply.status}: {reply.body.decode(errors='replace')})"
        return None


_IN_WORDS = Way({"messages": [{"role": "user", "content": _ASKED}], "tools": TOOLS, "temperature": 0.0, "max_tokens": _MANY})


def forced(words: str) -> dict[str, Any]:
    """What is added to a request so that this is sampled."""
    return {FORCED: {"choice": [words]}}


def agreed(left: str, right: str) -> int:
    """How far two texts are the same from their beginning."""
    return next((at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), min(len(left), len(right)))


def deterministic(first: Said, second: Said) -> bool:
    """Whether two replies to one request are the same in all that the engine sampled."""
    return [(choice.ids, choice.said) for choice in first.choices] == [(choice.ids, choice.said) for choice in second.choices]
