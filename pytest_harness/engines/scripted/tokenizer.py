"""The bundled tokenizer with its chat template: conversations to ids, ids to bytes.

The template is rendered as transformers and vLLM do it: a sandboxed jinja2 environment in which ``tojson`` keeps the order of keys and
all characters. What reaches it of messages and tools is what vLLM lets through: ``conversation.py``.
"""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer, pre_tokenizers

from pytest_harness.engines.scripted.conversation import message_for_template, tool_for_template
from pytest_harness.resources import resource

END_OF_TURN = "<|im_end|>"
SPECIALS = ("<|endoftext|>", "<|im_start|>", END_OF_TURN)
CALL, END_OF_CALL = "<tool_call>", "</tool_call>"
THOUGHT, END_OF_THOUGHT = "<think>", "</think>"
TAGS = (CALL, END_OF_CALL, "<tool_response>", "</tool_response>", THOUGHT, END_OF_THOUGHT)

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]


class ChatTokenizer:
    """Encodes conversations and decodes samples. Thread-safe once made."""

    def __init__(self, tokenizer_json: str, chat_template: str) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = _to_json
        self._template = environment.from_string(chat_template)
        self.digest = hashlib.sha256((tokenizer_json + chat_template).encode()).hexdigest()
        self.ids: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        """The id of every token, by its string in the vocabulary."""
        self.specials = frozenset(self.ids[special] for special in SPECIALS)
        self.end_of_turn = self.ids[END_OF_TURN]
        byte_of = _byte_alphabet()
        self.size = len(self.ids)
        self._bytes = [b""] * self.size
        for text, token in self.ids.items():
            added = text in SPECIALS or text in TAGS
            self._bytes[token] = text.encode() if added else bytes(byte_of[char] for char in text)

    @classmethod
    @lru_cache(maxsize=1)
    def bundled(cls) -> Self:
        """The tokenizer and template that come with this project; read once."""
        folder = resource("fixtures", "tokenizer")
        texts = [(folder / name).read_text(encoding="utf-8") for name in ("tokenizer.json", "chat_template.jinja")]
        return cls(*texts)

    def render(self, messages: Messages, tools: Tools | None = None, *, add_generation_prompt: bool = True) -> str:
        """The text of a conversation."""
        return self._template.render(
            messages=[message_for_template(message) for message in messages],
            tools=None if tools is None else [tool_for_template(tool) for tool in tools],
            add_generation_prompt=add_generation_prompt,
        )

    def assistant_text(self, text: str, calls: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
        """What the template says between the generation prompt and the end of an assistant turn."""
        tool_calls = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
        turn = {"role": "assistant", "content": text, "tool_calls": tool_calls}
        rendered = self.render([turn], add_generation_prompt=False)
        return rendered.removeprefix(self.render([])).removesuffix(f"{END_OF_TURN}\n")

    def encode(self, text: str) -> list[int]:
        """The ids of a text; the tags and specials in it become their own ids."""
        # A client that cut an emoji in half sends a lone surrogate, which no tokenizer takes.
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        ids: list[int] = self._tokenizer.encode(whole, add_special_tokens=False).ids
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token."""
        return self._bytes[token]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, specials included."""
        return b"".join(self._bytes[token] for token in ids).decode("utf-8", "replace")

    def lone_text(self, token: int) -> str:
        """The text of one token; empty if it is but a part of a character."""
        text = self.decode([token])
        return "" if "\ufffd" in text else text

    def decode_pieces(self, ids: Iterable[int]) -> list[str]:
        """The text that each id adds, specials left out; a character comes with the token that completes it."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        pieces = [decoder.decode(b"" if token in self.specials else self._bytes[token]) for token in ids]
        if pieces:
            pieces[-1] += decoder.decode(b"", final=True)
        return pieces


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _byte_alphabet() -> dict[str, int]:
    """The characters by which byte-level BPE writes bytes: printable ones stand for themselves, the rest are shifted beyond 255."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    alphabet = {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(rest)}
    assert set(alphabet) == set(pre_tokenizers.ByteLevel.alphabet())
    return alphabet
