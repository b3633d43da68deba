"""The proxy: a key for each session, one route for calls, and the engine's errors as they are."""

import json
import secrets
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from ledger_proxy.body import LIMIT, RefusedError, forwarded, read
from ledger_proxy.capture import BrokenReplyError, Call

CALLS = frozenset({"/v1/chat/completions", "/chat/completions"})
MODELS = frozenset({"/v1/models", "/models"})


@dataclass
class Session:
    """One agent's. ``calls`` are those whose reply was whole, in the order in which they ended."""

    key: str = field(default_factory=lambda: "lp-" + secrets.token_urlsafe(32), repr=False)
    calls: list[Call] = field(default_factory=list)


class LedgerProxy:
    """The proxy before one engine; ``url`` is the engine's, without a path."""

    def __init__(self, url, model, api_key):
        self._url, self._model, self._api_key = url, model, api_key
        self._sessions = {}
        self._client = None

    def open(self):
        """A new session."""
        session = Session()
        self._sessions[session.key] = session
        return session

    def end(self, session):
        """Its key opens nothing from now on."""
        self._sessions.pop(session.key, None)

    def app(self):
        """What is served."""
        app = web.Application(client_max_size=LIMIT)
        app.router.add_route("*", "/{path:.*}", self._answer)
        app.cleanup_ctx.append(self._engine)
        return app

    async def _engine(self, _):
        timeout = aiohttp.ClientTimeout(total=None, connect=30)
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), connector=aiohttp.TCPConnector(limit=0), timeout=timeout
        ) as self._client:
            yield

    async def _answer(self, request):
        try:
            session = self._session(request)
            if session is None:
                return _error(401, "The key is missing or unknown.")
            if request.path in MODELS and request.method == "GET":
                return web.json_response({"object": "list", "data": [{"id": self._model, "object": "model", "owned_by": "engine"}]})
            if request.path not in CALLS or request.method != "POST":
                return _error(404, "There is no such route here.")
            return await self._call(request, session, await _asked(request))
        except RefusedError as refused:
            return _error(refused.status, str(refused))
        except (aiohttp.ClientError, BrokenReplyError) as error:
            return _error(502, self._safe(f"The engine did not answer: {error}"))

    def _session(self, request):
        """The session of the first key that opens one."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        keys = [bearer, *(request.headers.get(name, "") for name in ("api-key", "x-api-key", "x-goog-api-key"))]
        return next((self._sessions[key] for key in keys if key in self._sessions), None)

    async def _call(self, request, session, asked):
        headers = {"authorization": f"Bearer {self._api_key}"}
        async with self._client.post(f"{self._url}/v1/chat/completions", json=forwarded(asked, self._model), headers=headers) as reply:
            if reply.status >= 400:
                return await self._refusal(reply)
            call, plain = Call(), not asked.get("logprobs")
            if asked.get("stream"):
                return await self._stream(request, session, reply, call, plain)
            document = call.take(_document(await reply.read()), plain=plain)
            call.end()
            session.calls.append(call)
            return web.json_response(document)

    async def _refusal(self, reply):
        """The engine's error as it is, with when to try again, and without its key."""
        headers = {name: reply.headers[name] for name in ("retry-after",) if name in reply.headers}
        text = self._safe((await reply.read()).decode(errors="replace"))
        return web.Response(status=reply.status, text=text, content_type=reply.content_type, headers=headers)

    async def _stream(self, request, session, reply, call, plain):
        """Each event as it comes. What goes wrong before the first is an error like any other, later it is told inside the stream."""
        answer = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
        try:
            async for data in _events(reply):
                if data == "[DONE]":
                    break
                document = call.take(_document(data), plain=plain)
                if not answer.prepared:
                    await answer.prepare(request)
                await answer.write(b"data: " + json.dumps(document).encode() + b"\n\n")
            call.end()
        except (aiohttp.ClientError, BrokenReplyError) as error:
            if not answer.prepared:
                raise
            told = {"error": {"message": self._safe(f"The engine failed: {error}"), "type": "engine_error", "code": 502}}
            await answer.write(b"data: " + json.dumps(told).encode() + b"\n\n")
            await answer.write_eof()
            return answer
        session.calls.append(call)
        await answer.write(b"data: [DONE]\n\n")
        await answer.write_eof()
        return answer

    def _safe(self, text):
        return text.replace(self._api_key, "<redacted>")


async def _asked(request):
    """What the agent asks. Raises RefusedError."""
    too_large = RefusedError(f"The request is larger than {LIMIT} bytes.", 413)
    if (request.content_length or 0) > LIMIT:
        raise too_large
    try:
        return read(await request.read(), request.headers.get("content-encoding", ""))
    except web.HTTPRequestEntityTooLarge:
        raise too_large from None


def _document(text):
    try:
        return json.loads(text)
    except ValueError:
        raise BrokenReplyError("what it says is no JSON") from None


async def _events(reply):
    """The data of each server-sent event, however its bytes come."""
    data, rest = [], b""
    async for piece in reply.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            text = line.rstrip(b"\r").decode(errors="replace")
            if text.startswith("data:"):
                data.append(text.removeprefix("data:").removeprefix(" "))
            elif not text and data:
                yield "\n".join(data)
                data = []


def _error(status, message):
    return web.json_response({"error": {"message": message, "type": "proxy_error", "code": status}}, status=status)
