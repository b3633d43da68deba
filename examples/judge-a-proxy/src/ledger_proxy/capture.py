"""What is kept of a reply, and what of it the agent gets."""

import uuid
from dataclasses import dataclass, field


class BrokenReplyError(Exception):
    """A reply of the engine that is none."""


@dataclass
class Choice:
    """One choice, as far as it has come. ``ids`` or ``logprobs`` are None if the engine left any out."""

    ids: list | None = field(default_factory=list)
    logprobs: list | None = field(default_factory=list)
    finish: str | None = None

    def take(self, part):
        """Take what a whole choice, or a part of a streamed one, says."""
        ids, told = part.get("token_ids"), part.get("logprobs")
        entries = told.get("content") if isinstance(told, dict) else None
        says = part.get("delta", part.get("message")) or {}
        if ids is None and (says.get("content") or says.get("tool_calls") or "message" in part):
            self.ids = None
        if self.ids is not None:
            self.ids += ids or []
        if ids and entries is None:
            self.logprobs = None
        if self.logprobs is not None:
            self.logprobs += [entry.get("logprob") for entry in entries or []]
        self.finish = part.get("finish_reason") or self.finish


@dataclass
class Call:
    """One call of a session, once its reply is whole."""

    prompt_ids: list | None = None
    choices: dict[int, Choice] = field(default_factory=dict)

    def take(self, document, *, plain):
        """Take a whole reply or one event of a stream; what the agent gets of it. Raises BrokenReplyError."""
        if not isinstance(document, dict) or "error" in document or not isinstance(document.get("choices"), list):
            raise BrokenReplyError(_words(document))
        if document.get("prompt_token_ids"):
            self.prompt_ids = document["prompt_token_ids"]
        document.pop("prompt_token_ids", None)
        for part in document["choices"]:
            self.choices.setdefault(part["index"], Choice()).take(part)
            part.pop("token_ids", None)
            if plain:
                part["logprobs"] = None
            _name_calls(part.get("message") or part.get("delta") or {})
        return document

    def end(self):
        """Nothing more comes. Raises BrokenReplyError if a choice has not come to its end."""
        if not self.choices or not all(choice.finish for choice in self.choices.values()):
            raise BrokenReplyError("it broke off before its end")


def _name_calls(message):
    """Give a tool call an id if the engine gave it none: its result could not be told from another's."""
    for call in message.get("tool_calls") or []:
        if call.get("id") is None and (call.get("function") or {}).get("name"):
            call["id"] = f"call_{uuid.uuid4().hex}"


def _words(document):
    error = document.get("error") if isinstance(document, dict) else None
    return str(error.get("message") if isinstance(error, dict) else error or "The engine's reply is no chat completion.")
