"""Brings the two witnesses together: the proxy translates, and the contract reads both sides of what it did."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_harness.capture.dialects import TRANSLATED
from pytest_harness.contract.chat_wire import READERS, Reply, parse_reply
from pytest_harness.evidence import Call, Message, Times

Json = dict[str, Any]
PATHS = {
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/asked:generateContent",
    "streamed gemini": "/v1beta/models/asked:streamGenerateContent",
}
CREATED = 1_700_000_000.0


@dataclass
class Witnesses:
    """What the proxy makes of a harness's request and of an engine's reply, as a call of the record."""

    dialect: str
    body: Json
    streamed: bool = True
    call: Call = field(init=False)

    def __post_init__(self) -> None:
        dialect = next(each for each in TRANSLATED if each.name == self.dialect)
        path = PATHS["streamed gemini" if self.dialect == "gemini" and self.streamed else self.dialect]
        received = json.dumps(self.body)
        route = dialect.route("POST", path, {":query": "alt=sse"})
        assert route is not None
        prepared, self._reply = dialect.prepare(received.encode(), route, created=CREATED)
        chat = {**prepared.chat, "model": "served"}
        if prepared.streamed:
            chat |= {"stream": True, "stream_options": {"include_usage": True}}
        self.call = Call(
            index=0,
            id="call-0",
            dialect=self.dialect,
            method="POST",
            path=path,
            streamed=prepared.streamed,
            received=Message(headers={}, body=received),
            forwarded=Message(headers={}, body=json.dumps(chat)),
            notes=prepared.notes,
            outcome="complete",
            delivery="delivered",
            times=Times(received=0),
        )

    @property
    def forwarded(self) -> Json:
        return json.loads(self.call.forwarded.body)

    def forward(self, chat: Json) -> None:
        """Let the proxy have sent this on."""
        self.call = self.call.model_copy(update={"forwarded": Message(headers={}, body=json.dumps(chat))})

    def asked(self) -> Json:
        """The request as the contract reads it, less what is the proxy's own to set."""
        request = READERS[self.dialect].request(self.call)
        return {name: value for name, value in request.items() if name not in ("model", "logprobs", "top_logprobs")}

    def sent_on(self) -> Json:
        return {name: value for name, value in self.forwarded.items() if name not in ("model", "logprobs", "top_logprobs")}

    def answer(self, completion: Json, chunks: list[Json]) -> None:
        """Let the engine have said this: the whole reply, and the chunks of a stream that says the same."""
        if self.call.streamed:
            replied = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            parts = [self._reply.opening(), *map(self._reply.chunk, chunks), self._reply.closing()]
            delivered = b"".join(parts).decode()
        else:
            replied, delivered = json.dumps(completion), self._reply.whole(completion).decode()
        self.deliver(delivered, replied)

    def break_off(self, chunks: list[Json]) -> None:
        """Let the engine have hung up behind these chunks of its stream, and the proxy have said so."""
        replied = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        parts = [self._reply.opening(), *map(self._reply.chunk, chunks), self._reply.error_event(500, "The engine broke off.")]
        self.deliver(b"".join(parts).decode(), replied)

    def deliver(self, delivered: str, replied: str | None = None) -> None:
        update = {"delivered": Message(headers={}, body=delivered, status=200)}
        if replied is not None:
            update["replied"] = Message(headers={}, body=replied, status=200)
        self.call = self.call.model_copy(update=update)

    def said(self) -> Reply:
        return parse_reply(self.call.replied)

    def got(self) -> Reply:
        return READERS[self.dialect].reply(self.call)


@pytest.fixture(scope="session")
def witnesses():
    return Witnesses
