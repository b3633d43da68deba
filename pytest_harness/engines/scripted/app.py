"""The ASGI application: vLLM's routes in front of a script. Serve it with ``pytest_harness.serving.BackgroundServer``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from pytest_harness.engines.scripted import wire
from pytest_harness.engines.scripted.answer import Answerer
from pytest_harness.engines.scripted.asgi import disconnected, read_body, request_headers, send_body, send_json
from pytest_harness.engines.scripted.errors import RequestError, malformed, unknown_model
from pytest_harness.engines.scripted.faults import Fault, spoil_choice, spoil_document
from pytest_harness.engines.scripted.request import MAX_LOGPROBS, read_chat, read_messages, read_tools
from pytest_harness.engines.scripted.script import Script
from pytest_harness.engines.scripted.tokenizer import ChatTokenizer
from pytest_harness.serving import Receive, Scope, Send

VERSION = "0.32.0+scripted"
"""The vLLM whose wire format this imitates."""
MAX_MODEL_LEN = 32768
CHANCE_VERSION = "0.32.0+chance"
"""The same without a script."""


class ScriptedEngine:
    """Answers chat completions with the turns of ``script``; without one, as chance has it.

    ``model`` is the served name; ``api_key`` is asked for if given. ``tokens_as_ids`` is vLLM's ``--return-tokens-as-token-ids``,
    ``processed`` its ``--logprobs-mode=processed_logprobs``; ``max_logprobs``, ``auto_tools`` and ``reasons`` stand for its
    ``--max-logprobs``, ``--enable-auto-tool-choice`` and ``--reasoning-parser``.
    ``faults`` may be changed while the engine runs. ``salt`` goes into response and tool-call ids, so that two engines share none.
    """

    def __init__(
        self,
        script: Script | None,
        *,
        model: str = "scripted",
        max_model_len: int = MAX_MODEL_LEN,
        api_key: str | None = None,
        faults: Iterable[Fault] = (),
        tokens_as_ids: bool = True,
        processed: bool = True,
        max_logprobs: int = MAX_LOGPROBS,
        auto_tools: bool = True,
        reasons: bool = False,
        salt: str = "",
    ) -> None:
        self.model = model
        self.faults = list(faults)
        self.tokenizer = ChatTokenizer.bundled()
        self.version = CHANCE_VERSION if script is None else VERSION
        self._answerer = Answerer(script, self.tokenizer, max_model_len, processed, reasons)
        self._api_key = api_key
        self._read = partial(read_chat, model=model, tokens_as_ids=tokens_as_ids, max_logprobs=max_logprobs, auto_tools=auto_tools)
        self._salt = salt
        self._calls = count()
        self._started = int(time.time())
        self._routes: dict[str, tuple[str, Callable[[Scope, Receive, Send], Awaitable[None]]]] = {
            "/v1/chat/completions": ("POST", self._chat),
            "/v1/models": ("GET", self._models),
            "/health": ("GET", self._health),
            "/ping": ("GET", self._health),
            "/version": ("GET", self._version),
            "/tokenize": ("POST", self._tokenize),
            "/detokenize": ("POST", self._detokenize),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"the scripted engine serves HTTP only, not {scope['type']}")
        method, route = self._routes.get(scope["path"], ("", None))
        if route is None:
            await send_json(send, 404, {"detail": "Not Found"})
        elif scope["method"] != method:
            await send_json(send, 405, {"detail": "Method Not Allowed"}, {"allow": method})
        elif scope["path"].startswith("/v1") and not self._admits(scope):
            await send_json(send, 401, {"error": "Unauthorized"})
        else:
            try:
                await route(scope, receive, send)
            except RequestError as error:
                await send_json(send, error.status, error.body)

    def _admits(self, scope: Scope) -> bool:
        return self._api_key is None or request_headers(scope).get("authorization") == f"Bearer {self._api_key}"

    async def _models(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        never = dict.fromkeys(("allow_create_engine", "allow_search_indices", "allow_fine_tuning", "is_blocking"), False)
        always = dict.fromkeys(("allow_sampling", "allow_logprobs", "allow_view"), True)
        identity = {"id": f"modelperm-{self.model}", "object": "model_permission", "created": self._started}
        permission = {**identity, **never, **always, "organization": "*", "group": None}
        card = {"id": self.model, "object": "model", "created": self._started, "owned_by": "vllm", "root": self.model, "parent": None}
        await send_json(
            send, 200, {"object": "list", "data": [{**card, "max_model_len": self._answerer.max_model_len, "permission": [permission]}]}
        )

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send_body(send, 200, b"", {})

    async def _version(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send_json(send, 200, {"version": self.version})

    async def _tokenize(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope, receive)
        self._check_model(body)
        if "messages" in body:
            generate = body.get("add_generation_prompt") is not False
            text = self.tokenizer.render(read_messages(body, self.model), read_tools(body), add_generation_prompt=generate)
        else:
            prompt = body.get("prompt")
            if not isinstance(prompt, str):
                raise malformed("Field required", "body.prompt")
            text = prompt
        ids = self.tokenizer.encode(text)
        strings = [self.tokenizer.decode([token]) for token in ids] if body.get("return_token_strs") else None
        await send_json(send, 200, {"count": len(ids), "max_model_len": self._answerer.max_model_len, "tokens": ids, "token_strs": strings})

    async def _detokenize(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope, receive)
        self._check_model(body)
        ids = body.get("tokens")
        if not isinstance(ids, list):
            raise malformed("Input should be a valid list", "body.tokens")
        for number, token in enumerate(ids):
            if type(token) is not int:
                raise malformed("Input should be a valid integer", f"body.tokens.{number}")
        known = [token for token in ids if 0 <= token < self.tokenizer.size]  # vLLM leaves the others out
        await send_json(send, 200, {"prompt": self.tokenizer.decode(known)})

    def _check_model(self, body: Mapping[str, Any]) -> None:
        asked = body.get("model")
        if asked and asked != self.model:
            raise unknown_model(str(asked), self.model)

    async def _chat(self, scope: Scope, receive: Receive, send: Send) -> None:
        number = next(self._calls)
        faults = [fault for fault in self.faults if fault.hits(number)]
        body = await read_body(scope, receive)
        for fault in faults:
            if fault.kind == "status":
                error = fault.error()
                return await send_json(send, error.status, error.body, fault.headers)
            if fault.kind == "html":
                page = f"<html><head><title>{fault.status}</title></head><body><h1>{fault.message}</h1></body></html>\n"
                return await send_body(send, fault.status, page.encode(), {"content-type": "text/html"})
        request = self._read(body)
        reply = self._answerer.answer(request, f"{self._salt}/{number}")
        for fault in faults:
            reply = replace(reply, choices=tuple(spoil_choice(fault.kind, choice, fault.after) for choice in reply.choices))
        if reply.request.stream:
            await self._stream(reply, faults, receive, send)
        else:
            document = _spoiled(wire.completion(reply), faults)
            if all([await _waited(fault, receive) for fault in faults if fault.event]):
                await send_json(send, 200, document, cut=any(fault.kind == "cut" for fault in faults))
        return None

    async def _stream(self, reply: wire.Reply, faults: Sequence[Fault], receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, data in enumerate(_stream_data(reply, faults)):
            for fault in faults:
                if fault.after == number:
                    if fault.kind == "cut":
                        return  # the server closes a connection whose response was not completed
                    if fault.event and not await _waited(fault, receive):
                        return
            await send({"type": "http.response.body", "body": wire.event(data), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _stream_data(reply: wire.Reply, faults: Sequence[Fault]) -> Iterator[bytes]:
    for chunk in wire.chunks(reply):
        yield wire.dump(_spoiled(chunk, faults))
    yield b"[DONE]"


def _spoiled(document: wire.Json, faults: Sequence[Fault]) -> wire.Json:
    for fault in faults:
        spoil_document(fault.kind, document)
    return document


async def _waited(fault: Fault, receive: Receive) -> bool:
    """Wait for the fault's event; False if the client has gone meanwhile."""
    assert fault.event is not None
    released, gone = asyncio.ensure_future(fault.event.wait()), asyncio.ensure_future(disconnected(receive))
    try:
        await asyncio.wait((released, gone), return_when=asyncio.FIRST_COMPLETED)
        return released.done()
    finally:
        released.cancel()
        gone.cancel()
