"""Asks one endpoint: chat completions with everything that a capture needs, and what vLLM offers beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_harness.capture.upstream import Upstream
from pytest_harness.endpoint.reply import Said, read_stream, read_whole
from pytest_harness.wire.exchanges import ExchangeLog
from pytest_harness.wire.outcome import Broken
from pytest_harness.wire.raw import Http, Reply

CAPTURE: Mapping[str, Any] = {"logprobs": True, "top_logprobs": 0, "return_token_ids": True, "return_tokens_as_token_ids": True}
"""What a capture adds to each request."""
NEUTRAL: Mapping[str, Any] = {"temperature": 1.0, "top_p": 1.0}
"""Else the defaults of the model's ``generation_config.json`` hold."""
PROMPT = "Write one short sentence about a pear tree."

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Endpoint:
    """Where the engine is, which model is asked for, and with which key."""

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    streams_ids: bool = True
    """Whether it may be asked for ids in a stream; one that refuses that is asked for streams without them."""


class Asking:
    """A client of one endpoint; what passes is in its log, without the key."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.log = ExchangeLog()
        if endpoint.api_key is not None:
            self.log.secrets.add(endpoint.api_key)
        self.http = Http(self.log)
        self._upstream = Upstream(url=endpoint.url, model=endpoint.model, api_key=endpoint.api_key)

    def close(self) -> None:
        """Close all connections."""
        self.http.close()

    def url(self, path: str) -> str:
        """Of a route below ``/v1``."""
        return self._upstream.endpoint(path)

    def beside(self, path: str) -> str:
        """Of a route beside ``/v1``, where vLLM has its own."""
        return self.url("/x").removesuffix("/x").removesuffix("/v1") + path

    def body(self, **fields: Any) -> dict[str, Any]:
        """A chat request with all that a capture asks for, changed by ``fields``; None leaves one out."""
        body = {
            "model": self.endpoint.model,
            "messages": [{"role": "user", "content": PROMPT}],
            "max_tokens": 64,
            **CAPTURE,
            **NEUTRAL,
            **fields,
        }
        refused = {"return_token_ids"} if body.get("stream") and not self.endpoint.streams_ids else set()
        return {name: value for name, value in body.items() if value is not None and name not in refused}

    def post(self, **fields: Any) -> Reply:
        """Ask, and give the reply as it is."""
        return self.http.post(self.url("/chat/completions"), self.body(**fields), key=self.endpoint.api_key)

    def ask(self, *, streamed: bool = False, **fields: Any) -> Said:
        """Ask, and read the reply. Raises Broken unless it is a chat completion."""
        if streamed:
            fields = {"stream": True, "stream_options": {"include_usage": True}, **fields}
        reply = self.post(**fields)
        if reply.status != 200:
            raise Broken("status 200", f"status {reply.status}: {reply.body.decode(errors='replace')}")
        return read_stream(reply.events) if streamed else read_whole(reply.document)

    # -- what is offered beside it ------------------------------------------------------------------------------------------

    def get(self, url: str) -> Any:
        """A document; None where there is none."""
        headers: dict[str, str | bytes] = {} if self.endpoint.api_key is None else {"authorization": f"Bearer {self.endpoint.api_key}"}
        return _document(self.http.send("GET", url, headers=headers))

    def tokenized(self, messages: Messages, tools: Any = None, *, generate: bool = True) -> list[int] | None:
        """The ids of a conversation by ``/tokenize``; None where the engine has no such route or does not take conversations."""
        body = {"model": self.endpoint.model, "messages": messages, "add_generation_prompt": generate}
        found = self._beside("/tokenize", body | ({} if tools is None else {"tools": tools}))
        tokens = found.get("tokens") if isinstance(found, dict) else None
        return tokens if isinstance(tokens, list) else None

    def encoded(self, text: str) -> list[int] | None:
        """The ids of a text by ``/tokenize``; None where the engine has no such route."""
        found = self._beside("/tokenize", {"model": self.endpoint.model, "prompt": text, "add_special_tokens": False})
        tokens = found.get("tokens") if isinstance(found, dict) else None
        return tokens if isinstance(tokens, list) else None

    def decoded(self, ids: Sequence[Any]) -> str | None:
        """The text of ids by ``/detokenize``, specials included; None where the engine has no such route.

        vLLM calls it ``prompt``; SGLang calls it ``text``, and leaves specials out unless it is told not to.
        """
        found = self._beside("/detokenize", {"model": self.endpoint.model, "tokens": list(ids), "skip_special_tokens": False})
        text = found.get("prompt", found.get("text")) if isinstance(found, dict) else None
        return text if isinstance(text, str) else None

    def _beside(self, path: str, body: Mapping[str, Any]) -> Any:
        return _document(self.http.post(self.beside(path), body, key=self.endpoint.api_key))


def _document(reply: Reply) -> Any:
    try:
        return json.loads(reply.body) if reply.status == 200 else None
    except ValueError:
        return None
