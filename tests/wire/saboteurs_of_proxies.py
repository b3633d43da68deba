"""Proxies with one known fault each. ``BREAKS`` says which requirements must go red, and all others must not.

Each is named on the command line as any other adapter: ``pytest --proxy=saboteurs_of_proxies:LostIds``.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace

from between import Sabotaged

from pytest_harness.engines.scripted.tokenizer import ChatTokenizer

BREAKS: dict[type[Sabotaged], set[str]] = {}


def breaks(*requirements):
    def register(cls):
        BREAKS[cls] = set(requirements)
        return cls

    return register


def changed(calls, change):
    return tuple(replace(call, samples=tuple(change(sample) for sample in call.samples)) for call in calls)


def choices(document):
    return document.get("choices") or ()


def parts(document):
    return [choice.get("message") or choice.get("delta") or {} for choice in choices(document)]


JSON = [(b"content-type", b"application/json")]

# -- the capture ------------------------------------------------------------------------------------------------------------


@breaks("DIA-106", "FIN-101", "FIN-105", "GRF-104", "ISO-112", "STR-103", "TOK-101", "TOK-103", "USE-103", "USE-105")
class LostIds(Sabotaged):
    """Captures no sampled ids."""

    def calls(self, session):
        return changed(super().calls(session), lambda sample: replace(sample, token_ids=None))


@breaks("DIA-106", "FIN-105", "GRF-104", "ISO-112", "STR-103", "TOK-101", "TOK-103", "USE-105")
class ShiftedIds(Sabotaged):
    """Captures every id as a float."""

    def calls(self, session):
        floats = lambda ids: None if ids is None else tuple(float(token) for token in ids)  # noqa: E731
        return changed(super().calls(session), lambda sample: replace(sample, token_ids=floats(sample.token_ids)))


@breaks("CAN-103", "CAN-106", "GRF-102", "TOK-102")
class LostCall(Sabotaged):
    """Loses every call after the fifth of a session."""

    def calls(self, session):
        return super().calls(session)[:5]


@breaks("TOK-106")
class MadeUpIds(Sabotaged):
    """Fills in ids where the engine sent none."""

    def calls(self, session):
        return changed(super().calls(session), lambda sample: replace(sample, token_ids=sample.token_ids or (1, 2, 3)))


@breaks("LGP-101", "LGP-102", "TOK-103")
class RoundedLogprobs(Sabotaged):
    """Rounds what is captured."""

    def calls(self, session):
        rounded = lambda values: None if values is None else tuple(round(v, 3) if isinstance(v, float) else v for v in values)  # noqa: E731
        return changed(super().calls(session), lambda sample: replace(sample, logprobs=rounded(sample.logprobs)))


@breaks("LGP-102")
class PaddedLogprobs(Sabotaged):
    """Fills up missing logprobs with certainty."""

    def calls(self, session):
        def pad(sample):
            missing = len(sample.token_ids or ()) - len(sample.logprobs or ())
            return replace(sample, logprobs=tuple(sample.logprobs or ()) + (0.0,) * missing)

        return changed(super().calls(session), pad)


@breaks("LGP-104")
class ClampedLogprobs(Sabotaged):
    """Makes impossible logprobs possible."""

    def calls(self, session):
        clamped = lambda values: None if values is None else tuple(v if v <= 0 else 0.0 for v in values)  # noqa: E731
        return changed(super().calls(session), lambda sample: replace(sample, logprobs=clamped(sample.logprobs)))


@breaks("FIN-101", "FIN-102")
class WrongFinish(Sabotaged):
    """Captures every call as finished by itself."""

    def calls(self, session):
        return changed(super().calls(session), lambda sample: replace(sample, finish_reason="stop"))


@breaks("CAN-102", "CAN-105", "DIA-114", "ERR-104", "ERR-105", "ERR-108", "ERR-109")
class BlindDelivery(Sabotaged):
    """Takes every call for whole and delivered."""

    def calls(self, session):
        return tuple(replace(call, complete=True, delivered=True) for call in super().calls(session))


@breaks("DIA-114", "ERR-104", "ERR-105", "ERR-108", "ERR-109")
class CapturedErrors(Sabotaged):
    """Offers calls that ended in an error."""

    def calls(self, session):
        return tuple(replace(call, complete=True) for call in super().calls(session))


@breaks("CAN-104", "DIA-106", "STR-108")
class MergedRepeats(Sabotaged):
    """Keeps one call of each prompt."""

    def calls(self, session):
        return tuple({call.prompt_ids: call for call in super().calls(session)}.values())


@breaks("USE-103", "USE-104")
class OneChoiceCaptured(Sabotaged):
    """Captures the first choice alone."""

    def calls(self, session):
        return tuple(replace(call, samples=call.samples[:1]) for call in super().calls(session))


@breaks("USE-105")
class CutToUsage(Sabotaged):
    """Brings the number of ids to what the usage says."""

    usage = 0

    def chunk(self, document):
        if document.get("usage"):
            self.usage = document["usage"]["completion_tokens"]
        return document

    def calls(self, session):
        def fit(sample):
            ids = tuple(sample.token_ids or ())
            return replace(sample, token_ids=ids + ids[-1:] * (self.usage - len(ids))) if len(ids) == self.usage - 3 else sample

        return changed(super().calls(session), fit)


@breaks("ISO-107")
class KeptCredentials(Sabotaged):
    """Keeps the headers as they came."""

    seen = b""

    def scope(self, scope):
        self.seen = repr([each for each in scope["headers"] if each[0] != b"authorization"]).encode()

    def export(self, session):
        return super().export(session) + self.seen


@breaks("ISO-108")
class KeptKey(Sabotaged):
    """Writes the session's key into its record."""

    def export(self, session):
        return super().export(session) + session.key.encode()


@breaks("ISO-112")
class MixedSessions(Sabotaged):
    """Gives a session the last call of another that ran meanwhile."""

    before = ()

    def calls(self, session):
        mine = super().calls(session)
        ids = [token for call in mine for sample in call.samples for token in sample.token_ids or ()]
        if ChatTokenizer.bundled().decode(ids).startswith("Answer number"):
            mine, self.before = self.before or mine, mine
        return mine


# -- the request ------------------------------------------------------------------------------------------------------------


@breaks("TOK-103")
class SwitchableCapture(Sabotaged):
    """Lets the client switch ids off."""

    off = False

    def request(self, document):
        self.off = "return_token_ids" in document

    def to_engine(self, document, headers):
        if self.off:
            document["return_token_ids"] = False


@breaks("TOK-104")
class ForeignModel(Sabotaged):
    """Passes on names of OpenAI's models."""

    name = None

    def request(self, document):
        self.name = document.get("model")

    def to_engine(self, document, headers):
        if str(self.name).startswith("gpt-"):
            document["model"] = self.name


@breaks("TOK-105")
class PassedDistortion(Sabotaged):
    """Passes on fields that change the prompt."""

    fields = ("truncate_prompt_tokens", "echo", "prompt_logprobs", "chat_template", "add_generation_prompt", "continue_final_message")

    def request(self, document):
        self.taken = {name: document.pop(name) for name in self.fields if name in document}

    def to_engine(self, document, headers):
        document |= getattr(self, "taken", {})


@breaks("TOK-107")
class MergedSystem(Sabotaged):
    """Puts all system messages into one at the top."""

    def request(self, document):
        messages = document.get("messages")
        if isinstance(messages, list):
            system = [each for each in messages if each.get("role") in ("system", "developer")]
            if len(system) > 1:
                text = "\n".join(each["content"] for each in system)
                document["messages"] = [{"role": "system", "content": text}, *(each for each in messages if each not in system)]


@breaks("GRF-101", "GRF-102", "GRF-103")
class Nonce(Sabotaged):
    """Adds a counter to the system prompt."""

    count = 0

    def request(self, document):
        self.count += 1
        for message in document.get("messages") or ():
            if message.get("role") == "system" and len(document["messages"]) != 9:
                message["content"] += f" Call {self.count}."


@breaks("FIN-104")
class MadeUpLimit(Sabotaged):
    """Sets a limit where there is none."""

    def to_engine(self, document, headers):
        if "max_tokens" not in document and "max_completion_tokens" not in document:
            document["max_tokens"] = 8192


@breaks("FIN-101", "FIN-103", "FIN-105")
class NoLimits(Sabotaged):
    """Forgets limits and stop sequences."""

    def request(self, document):
        for name in ("max_tokens", "max_completion_tokens", "stop"):
            document.pop(name, None)


@breaks("DIA-115")
class DroppedTools(Sabotaged):
    """Drops tools of a kind that it does not know."""

    def request(self, document):
        if isinstance(document.get("tools"), list):
            document["tools"] = [tool for tool in document["tools"] if tool.get("type") == "function"]
            if not document["tools"]:
                del document["tools"]


@breaks("DIA-113")
class PassedPrivate(Sabotaged):
    """Passes private fields on."""

    def request(self, document):
        self.taken = {name: value for name, value in document.items() if name.startswith(("_", "x_"))}

    def to_engine(self, document, headers):
        document |= getattr(self, "taken", {})


@breaks("ISO-106")
class PassedHeaders(Sabotaged):
    """Passes the harness's own headers on."""

    def scope(self, scope):
        self.taken = {n.decode(): v.decode("latin-1") for n, v in scope["headers"] if n in (b"cookie", b"x-vendor-token")}

    def to_engine(self, document, headers):
        headers |= getattr(self, "taken", {})


@breaks("ERR-106", "ERR-107")
class LearningProxy(Sabotaged):
    """Never sends again what an error has spoken of."""

    words = ""

    def body(self, status, body, scope):
        if status == 400:
            self.words = body.decode(errors="replace")
        return body

    def to_engine(self, document, headers):
        for name in ("temperature", "seed", "max_tokens"):
            if name in self.words:
                document.pop(name, None)


@breaks("DIA-106")
class NullMeansSet(Sabotaged):
    """Takes a null for a value."""

    async def answer(self, scope, body):
        return (400, JSON, b'{"error": {"message": "n must be 1"}}') if b'"n": null' in body else None


@breaks("DIA-107")
class PlainOnly(Sabotaged):
    """Reads no compressed body."""

    async def answer(self, scope, body):
        return (415, JSON, b'{"error": {"message": "no"}}') if b"content-encoding" in dict(scope["headers"]) else None


@breaks("DIA-108")
class Unbounded(Sabotaged):
    """Unpacks whatever it is given."""

    async def answer(self, scope, body):
        headers = dict(scope["headers"])
        return (
            (200, JSON, b"%d" % len(gzip.decompress(body))) if headers.get(b"content-encoding") == b"gzip" and len(body) > 100000 else None
        )


@breaks("DIA-109")
class SilentLimit(Sabotaged):
    """Cuts off whoever announces too much."""

    async def answer(self, scope, body):
        return (400, JSON, b"{}") if int(dict(scope["headers"]).get(b"content-length", b"0")) > 1 << 39 else None


# -- routes and keys --------------------------------------------------------------------------------------------------------


@breaks("DIA-104")
class OpenRoutes(Sabotaged):
    """Serves routes that it does not capture."""

    async def answer(self, scope, body):
        return (200, JSON, b'{"data": []}') if scope["path"] in ("/v1/embeddings", "/tokenize") else None


@breaks("DIA-105")
class StrictPath(Sabotaged):
    """Serves /v1 alone."""

    async def answer(self, scope, body):
        return (404, JSON, b'{"error": {"message": "no"}}') if scope["path"] == "/chat/completions" else None


@breaks("DIA-111")
class NoModels(Sabotaged):
    """Lists no models."""

    async def answer(self, scope, body):
        known = any(name == b"authorization" for name, _ in scope["headers"])
        return (404, JSON, b'{"error": {"message": "no"}}') if scope["path"] == "/v1/models" and known else None


@breaks("DIA-114")
class BareErrors(Sabotaged):
    """Tells what it refuses in a text."""

    def body(self, status, body, scope):
        return b'"no"' if status == 400 and b'"refused"' in body else body


@breaks("ISO-101")
class OpenDoor(Sabotaged):
    """Serves whoever has no key."""

    async def answer(self, scope, body):
        keys = {name for name, _ in scope["headers"]} & {b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"}
        return None if keys or b"key=" in scope["query_string"] or scope["method"] != "POST" else (200, JSON, b"{}")


@breaks("ISO-102", "ISO-103")
class BearerOnly(Sabotaged):
    """Knows one header for keys."""

    def scope(self, scope):
        scope["headers"] = [each for each in scope["headers"] if each[0] not in (b"x-api-key", b"api-key", b"x-goog-api-key")]


@breaks("ISO-104")
class FragileKeys(Sabotaged):
    """Falls over a key that is no ASCII."""

    async def answer(self, scope, body):
        key = dict(scope["headers"]).get(b"authorization", b"")
        return None if key.isascii() else (500, JSON, b"{}")


@breaks("ISO-105")
class TalkativeHealth(Sabotaged):
    """Tells the engine's model to anybody."""

    async def answer(self, scope, body):
        return (200, JSON, json.dumps({"model": self.engine_model}).encode()) if scope["path"] == "/health" else None


@breaks("ISO-110", "ISO-111")
class UndeadSession(Sabotaged):
    """Ends no session."""

    def delete_session(self, session):
        return


@breaks("ISO-113")
class PassedCookie(Sabotaged):
    """Hands the engine's cookies on."""

    def head(self, status, headers, scope):
        return status, [*headers, (b"set-cookie", b"tracker=canary-cookie")]


@breaks("ISO-109")
class EchoedKey(Sabotaged):
    """Hands on what the engine says of its key."""

    def body(self, status, body, scope):
        return body.replace(b"<redacted>", self.engine_key.encode())


# -- the reply --------------------------------------------------------------------------------------------------------------


@breaks("STR-101")
class LostDelta(Sabotaged):
    """Loses a piece of text in streams."""

    def chunk(self, document):
        for choice in choices(document):
            if (choice.get("delta") or {}).get("content") == " look":
                choice["delta"]["content"] = ""
        return document


@breaks("STR-105")
class LeakedIds(Sabotaged):
    """Hands out what the capture asked for."""

    def chunk(self, document):
        return document | {"prompt_token_ids": [1, 2, 3]}


@breaks("STR-106", "USE-101")
class LateWords(Sabotaged):
    """Says something after the end of the turn."""

    def event(self, data):
        if data == b"data: [DONE]\n\n":
            chunk = {"id": "late", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            late = chunk | {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]}
            return b"data: " + json.dumps(late).encode() + b"\n\n" + data
        return data


@breaks("STR-107")
class UnaskedUsage(Sabotaged):
    """Tells the usage of every stream."""

    def event(self, data):
        if data == b"data: [DONE]\n\n":
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            more = {"id": self.id, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}
            return data if self.told else b"data: " + json.dumps(more).encode() + b"\n\n" + data
        return data

    told, id = False, ""

    def request(self, document):
        self.told = False

    def chunk(self, document):
        self.told, self.id = self.told or bool(document.get("usage")), document["id"]
        return document


@breaks("STR-109")
class WrongContentType(Sabotaged):
    """Calls a stream JSON."""

    def head(self, status, headers, scope):
        return status, [(n, b"application/json" if v.startswith(b"text/event-stream") else v) for n, v in headers]


@breaks("STR-108")
class ClosedConnections(Sabotaged):
    """Closes every connection."""

    def head(self, status, headers, scope):
        return status, [*headers, (b"connection", b"close")]


@breaks("STR-104")
class BufferedStream(Sabotaged):
    """Streams when everything is there."""

    buffered = True


@breaks("PAR-102")
class SwappedCalls(Sabotaged):
    """Turns parallel calls around in whole replies."""

    def chunk(self, document):
        for part in parts(document):
            if len(part.get("tool_calls") or ()) > 4:
                part["tool_calls"].reverse()
        return document


@breaks("PAR-104")
class RepairedArguments(Sabotaged):
    """Makes malformed arguments empty ones."""

    def chunk(self, document):
        for part in parts(document):
            for call in part.get("tool_calls") or ():
                if call["function"].get("arguments") in ('{"command": "ls', "[1, 2]", "null", "ls -la"):
                    call["function"]["arguments"] = "{}"
        return document


@breaks("PAR-101")
class RenamedCalls(Sabotaged):
    """Gives results other ids than their calls."""

    def to_engine(self, document, headers):
        for message in document.get("messages") or ():
            if message.get("role") == "tool" and str(message.get("content")).startswith("result of"):
                message["tool_call_id"] = "another"


@breaks("STR-106", "PAR-103")
class NullCallIds(Sabotaged):
    """Hands on calls without ids."""

    def chunk(self, document):
        for part in parts(document):
            for call in part.get("tool_calls") or ():
                if call.get("id") and call["function"].get("name") and not self.whole:
                    call["id"] = ""
        return document

    whole = False


@breaks("USE-101")
class WrongUsage(Sabotaged):
    """Counts by its own tokenizer."""

    def chunk(self, document):
        if document.get("usage"):
            document["usage"]["completion_tokens"] += 1
        return document


@breaks("USE-102")
class LostCachedTokens(Sabotaged):
    """Leaves out the details of the usage."""

    def chunk(self, document):
        if document.get("usage"):
            document["usage"].pop("prompt_tokens_details", None)
        return document


@breaks("LGP-103")
class WithheldLogprobs(Sabotaged):
    """Takes out logprobs that the client asked for."""

    def chunk(self, document):
        for choice in choices(document):
            if choice.get("logprobs"):
                choice["logprobs"] = None
        return document


@breaks("ERR-101", "ERR-102", "ERR-103")
class FlattenedErrors(Sabotaged):
    """Makes every error of the engine a 500 of its own."""

    def head(self, status, headers, scope):
        return (500 if self.engines else status), headers

    engines = False

    def body(self, status, body, scope):
        self.engines = any(words in body for words in (b"The engine says", b"Slow down", b"context length"))
        return b'{"error": {"message": "Internal error"}}' if self.engines else body


@breaks("ERR-102")
class LostRetryAfter(Sabotaged):
    """Leaves Retry-After out."""

    def head(self, status, headers, scope):
        return status, [each for each in headers if each[0] != b"retry-after"]


@breaks("ERR-104", "ERR-105")
class TrustingProxy(Sabotaged):
    """Takes whatever has status 200 for a reply."""

    def head(self, status, headers, scope):
        return (200 if status == 502 else status), headers

    def body(self, status, body, scope):
        message = {"role": "assistant", "content": ""}
        reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
        reply["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return json.dumps(reply).encode() if status == 502 else body


@breaks("ERR-105", "ERR-109")
class TidyEnd(Sabotaged):
    """Ends a broken stream as if it were whole."""

    def event(self, data):
        return b"data: [DONE]\n\n" if b'"error"' in data and data.startswith(b"data: {") else data


# -- time -------------------------------------------------------------------------------------------------------------------


@breaks("CAN-101", "CAN-102", "CAN-105")
class DeafProxy(Sabotaged):
    """Never notices that the harness has gone."""

    deaf = True


@breaks("CAN-103")
class NarrowProxy(Sabotaged):
    """Lets thirty-two calls through at a time."""

    def app(self, proxy):
        inner = super().app(proxy)
        gate = asyncio.Semaphore(32)

        async def narrow(scope, receive, send):
            async with gate:
                await inner(scope, receive, send)

        return narrow


# -- bytes and dialects -----------------------------------------------------------------------------------------------------


@breaks("STR-102")
class SplitSensitive(Sabotaged):
    """Decodes every piece of the engine's reply by itself."""

    def piece(self, data):
        return data.decode(errors="replace").encode()


@breaks("STR-103")
class LiteralEvents(Sabotaged):
    """Knows events by the letter."""

    def piece(self, data):
        return b"" if data.startswith(b"data:{") else data


@breaks("DIA-101", "DIA-102")
class DialectNote(Sabotaged):
    """Tells the model in which dialect it was asked."""

    dialects = frozenset({"chat", "messages"})

    def to_engine(self, document, headers):
        if self.path == "/v1/messages" and document.get("messages"):
            document["messages"][0]["content"] = "A user of Messages. " + str(document["messages"][0]["content"])

    path = ""

    def scope(self, scope):
        self.path = scope["path"]


@breaks("DIA-103")
class DroppedState(Sabotaged):
    """Leaves out what refers to the vendor's own state."""

    dialects = frozenset({"responses"})

    def request(self, document):
        for name in ("previous_response_id", "conversation", "prompt", "background"):
            document.pop(name, None)


@breaks("DIA-117")
class MessagesOnlyCounted(Sabotaged):
    """Counts the tokens of the messages alone."""

    dialects = frozenset({"messages", "gemini"})

    def scope(self, scope):
        self.counting = scope["path"].endswith(("/count_tokens", ":countTokens"))

    def request(self, document):
        if self.counting:
            for name in ("system", "systemInstruction", "tools"):
                document.pop(name, None)


@breaks("DIA-112", "DIA-117")
class CapturedCounts(Sabotaged):
    """Counts tokens by asking the engine for an answer."""

    dialects = frozenset({"messages"})

    def scope(self, scope):
        scope["path"] = scope["path"].removesuffix("/count_tokens")


@breaks("DIA-110")
class OpenUpgrade(Sabotaged):
    """Answers an upgrade as if it were any request."""

    dialects = frozenset({"responses"})

    async def answer(self, scope, body):
        return (200, JSON, b"{}") if b"upgrade" in dict(scope["headers"]) else None


@breaks("DIA-116", "ISO-101", "ISO-104", "ISO-110", "ISO-111")
class Forbidding(Sabotaged):
    """Has another status for a wrong key."""

    def head(self, status, headers, scope):
        return (403 if status == 401 else status), headers
