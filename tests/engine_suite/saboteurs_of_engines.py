"""Engines with one known fault each. ``BREAKS`` says which requirements must go red, and all others must not.

All are served by one server, each below its own name: ``pytest --llm-url http://127.0.0.1:PORT/LostIds/v1``.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from types import MappingProxyType

from pytest_harness.engines.scripted import ScriptedEngine
from pytest_harness.engines.scripted.answer import Answerer
from pytest_harness.engines.scripted.asgi import send_body, send_json
from pytest_harness.engines.scripted.chance import draw
from pytest_harness.engines.scripted.tokenizer import ChatTokenizer

BREAKS: dict[type[Sound], set[str]] = {}
CONTEXT = 2048
JSON = {"content-type": "application/json"}
VERSION = {"weight_version": "step-7"}


def breaks(*requirements):
    def register(cls):
        BREAKS[cls] = set(requirements)
        return cls

    return register


class Sound:
    """An engine without a fault: chance behind vLLM's wire. A fault overrides what is asked of it, or what it says."""

    flags = MappingProxyType({})
    answerer = Answerer

    def __init__(self) -> None:
        self.engine = ScriptedEngine(None, model="served", max_model_len=CONTEXT, reasons=True, **self.flags)
        old = self.engine._answerer
        self.engine._answerer = self.answerer(None, old.tokenizer, old.max_model_len, old.processed, old.reasons)
        self.running = 0

    def asked(self, body):
        """The request as the engine reads it."""
        return body

    def said(self, document, body):
        """A whole reply."""
        return document

    def streamed(self, chunks, body):
        """The chunks of a stream; by default each as a whole reply would be."""
        return [self.said(chunk, body) for chunk in chunks]

    def refused(self, status, document):
        return status, document

    async def __call__(self, scope, receive, send):
        if scope["path"] == "/weight_info":
            return await send_json(send, 200, VERSION)
        if scope["path"] == "/metrics":
            return await send_body(send, 200, f'vllm:num_requests_running{{engine="0"}} {self.running}.0\n'.encode(), {})
        raw = b""
        while True:
            event = await receive()
            raw += event.get("body", b"")
            if not event.get("more_body"):
                break
        if scope["path"] != "/v1/chat/completions":
            return await self.engine(scope, once(raw), send)
        return await self.chat(scope, raw, receive, send)

    async def chat(self, scope, raw, receive, send):
        body = parsed(raw)
        if isinstance(body, dict):
            if body.get("ignore_eos"):
                return await self.endless(receive, send)
            body = await self.taken(body)
            raw = json.dumps(body).encode()
        status, sent = await self.answered(scope, raw)
        if status != 200:
            return await send_json(send, *self.refused(status, json.loads(sent)))
        if not body.get("stream"):
            return await send_json(send, 200, self.said(versioned(json.loads(sent)), body))
        events = [event.removeprefix("data: ") for event in sent.decode().split("\n\n") if event]
        chunks = self.streamed([versioned(json.loads(event)) for event in events[:-1]], body)
        data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        return await send_body(send, 200, data.encode(), {"content-type": "text/event-stream"})

    async def taken(self, body):
        return self.asked(body)

    async def answered(self, scope, raw):
        """What the engine says, whole."""
        found = []

        async def keep(event):
            found.append(event)

        await self.engine(scope, once(raw), keep)
        return found[0]["status"], b"".join(event.get("body", b"") for event in found[1:])

    async def endless(self, receive, send):
        self.running += 1
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b'data: {"choices":[]}\n\n', "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.ended()

    def ended(self):
        self.running -= 1


def once(raw):
    events = iter([{"type": "http.request", "body": raw, "more_body": False}])

    async def receive():
        return next(events, {"type": "http.disconnect"})

    return receive


def parsed(raw):
    try:
        return json.loads(raw)
    except ValueError:
        return None


def versioned(document):
    return {**document, "metadata": VERSION}


def choices(document):
    return document.get("choices") or ()


def messages(document):
    return [choice.get("message") or choice.get("delta") or {} for choice in choices(document)]


def each_choice(change):
    """A fault that changes each choice of a reply or a chunk in its place."""

    def said(self, document, body):
        for choice in choices(document):
            change(choice, body)
        return document

    return said


def entries(choice):
    return (choice.get("logprobs") or {}).get("content") or []


def calling(body):
    return bool(body.get("tools")) and "structured_outputs" in body


# -- ids --------------------------------------------------------------------------------------------------------------------


@breaks("TOK-201")
class NoIds(Sound):
    """Tells no sampled ids."""

    said = each_choice(lambda choice, body: choice.update(token_ids=None))


@breaks("TOK-201")
class NoPromptIds(Sound):
    """Tells no ids of the prompt."""

    def said(self, document, body):
        return document | ({"prompt_token_ids": None} if "prompt_token_ids" in document else {})


@breaks("STR-201", "TOK-201")
class NoIdsInStreams(Sound):
    """Tells ids in whole replies alone."""

    def streamed(self, chunks, body):
        for chunk in chunks:
            for choice in choices(chunk):
                choice["token_ids"] = None
        return chunks


@breaks("FIN-206", "STR-201", "TOK-202", "TOK-203", "TOK-205", "USE-201")
class LostIdsOfAStreamedCall(Sound):
    """Leaves the chunks inside a call out of a stream, as their deltas are empty (vLLM issue 27482)."""

    def streamed(self, chunks, body):
        kept = lambda choice: choice["delta"] or choice["finish_reason"]  # noqa: E731
        return [chunk for chunk in chunks if not choices(chunk) or any(map(kept, choices(chunk)))]


@breaks("TOK-203")
class LostIdsOfReasoning(Sound):
    """Tells the ids of the answer alone."""

    def said(self, document, body):
        for choice, message in zip(choices(document), messages(document), strict=True):
            if message.get("reasoning") and choice.get("token_ids"):
                end = ChatTokenizer.bundled().ids["</think>"]
                ids = choice["token_ids"]
                choice["token_ids"] = ids[ids.index(end) + 1 :] if end in ids else []
        return document


@breaks("TOK-204")
class FloatIds(Sound):
    """Tells ids as floats."""

    def said(self, document, body):
        for place, name in [(document, "prompt_token_ids"), *((choice, "token_ids") for choice in choices(document))]:
            if place.get(name):
                place[name] = [float(token) for token in place[name]]
        return document


@breaks("FIN-206", "TOK-202", "TOK-203", "TOK-205", "TOK-207", "TOK-208", "USE-203")
class OtherIds(Sound):
    """Tells ids of another vocabulary: each is off by one."""

    def said(self, document, body):
        for choice in choices(document):
            if choice.get("token_ids"):
                choice["token_ids"] = [max(0, token - 1) for token in choice["token_ids"]]
                for entry, token in zip(entries(choice), choice["token_ids"], strict=True):
                    if entry["token"].startswith("token_id:"):
                        entry["token"] = f"token_id:{token}"
        return document


@breaks("TOK-206")
class OwnSystemPrompt(Sound):
    """Puts a system prompt of its own before every conversation."""

    def asked(self, body):
        if isinstance(body.get("messages"), list) and body["messages"]:
            return {**body, "messages": [{"role": "system", "content": "Be brief."}, *body["messages"]]}
        return body


@breaks("TOK-207", "TOK-208")
class ClearedToolCalls(Sound):
    """Renders the assistant messages of a history without their tool calls (verl issue 3960)."""

    def asked(self, body):
        clear = lambda message: {name: value for name, value in message.items() if name != "tool_calls"}  # noqa: E731
        return {**body, "messages": [clear(message) for message in body["messages"]]} if isinstance(body.get("messages"), list) else body


@breaks("TOK-207", "TOK-208")
class TrimmedHistory(Sound):
    """Renders the text of assistant messages without its last word."""

    def asked(self, body):
        def trimmed(message):
            text = message.get("content")
            return {**message, "content": text.rpartition(" ")[0]} if message.get("role") == "assistant" and text else message

        return {**body, "messages": [trimmed(message) for message in body["messages"]]} if isinstance(body.get("messages"), list) else body


@breaks("TOK-208")
class RetokenisedHistory(Sound):
    """Cuts the text of a history into other ids than were sampled."""

    def said(self, document, body):
        ids = document.get("prompt_token_ids")
        if ids and any(message["role"] == "assistant" for message in body["messages"]):
            tokenizer = ChatTokenizer.bundled()
            starts = [at for at, token in enumerate(ids) if token == tokenizer.ids["<|im_start|>"]]
            at = next(
                at
                for at in range(starts[-2], 0, -1)
                if tokenizer.token_bytes(ids[at]).isalpha() and len(tokenizer.token_bytes(ids[at])) > 2
            )
            letters = [tokenizer.encode(chr(byte))[0] for byte in tokenizer.token_bytes(ids[at])]
            document["prompt_token_ids"] = [*ids[:at], *letters, *ids[at + 1 :]]
            if document.get("usage"):
                document["usage"]["prompt_tokens"] += len(letters) - 1
                document["usage"]["total_tokens"] += len(letters) - 1
        return document


@breaks("LGP-210", "TOK-209")
class MixedUp(Sound):
    """Answers whoever asked last, where several ask at once."""

    async def taken(self, body):
        self.last = body
        await asyncio.sleep(0.02)
        return self.last


@breaks("LGP-210")
class OtherSeedsTogether(Sound):
    """Gives up on seeds where several ask at once."""

    at_once = 0

    async def taken(self, body):
        self.at_once += 1
        await asyncio.sleep(0.02)
        alone = self.at_once == 1
        self.at_once -= 1
        return body if alone else {name: value for name, value in body.items() if name != "seed"}


@breaks("TOK-210")
class VersionNotTold(Sound):
    """Knows the version of its weights and does not tell it with its replies."""

    def said(self, document, body):
        return {name: value for name, value in document.items() if name != "metadata"}


@breaks("TOK-210")
class OldVersionTold(Sound):
    """Tags replies with a version that it no longer has."""

    def said(self, document, body):
        return {**document, "metadata": {"weight_version": "step-6"}}


# -- logprobs ---------------------------------------------------------------------------------------------------------------


@breaks("LGP-201")
class NoLogprobs(Sound):
    """Tells no logprobs."""

    said = each_choice(lambda choice, body: choice.update(logprobs=None))


@breaks("FIN-206", "LGP-201", "LGP-203", "LGP-206", "LGP-207", "USE-203")
class LostLogprob(Sound):
    """Tells no logprob of the first token of a reply."""

    def said(self, document, body):
        for choice in choices(document):
            if choice.get("logprobs") and not body.get("stream"):
                choice["logprobs"]["content"] = choice["logprobs"]["content"][1:]
        return document

    def streamed(self, chunks, body):
        place = next((choice for chunk in chunks for choice in choices(chunk) if choice.get("logprobs")), None)
        if place:
            place["logprobs"] = None
        return chunks


def spoil(value):
    def change(choice, body):
        for entry in entries(choice)[-1:]:
            entry["logprob"] = value

    return each_choice(change)


@breaks("LGP-202", "LGP-207", "STR-201")
class PositiveLogprob(Sound):
    """Tells a logprob above zero."""

    said = spoil(0.25)


@breaks("LGP-202", "STR-201")
class SentinelLogprob(Sound):
    """Says -9999 where it has no probability."""

    said = spoil(-9999.0)


@breaks("LGP-202", "LGP-207")
class NullLogprob(Sound):
    """Says null where it has no probability."""

    said = spoil(None)


@breaks("LGP-203")
class RotatedLogprobs(Sound):
    """Tells each logprob with the id before it."""

    def streamed(self, chunks, body):
        places = [choice for chunk in chunks for choice in choices(chunk) if choice.get("logprobs")]
        told = [choice["logprobs"] for choice in places]
        for choice, logprobs in zip(places, told[1:] + told[:1], strict=True):
            choice["logprobs"] = logprobs
        return chunks

    def said(self, document, body):
        for choice in choices(document):
            if choice.get("logprobs"):
                found = choice["logprobs"]["content"]
                choice["logprobs"]["content"] = found[1:] + found[:1]
        return document


@breaks("LGP-204")
class TextTokens(Sound):
    """Started without --return-tokens-as-token-ids."""

    flags = MappingProxyType({"tokens_as_ids": False})


@breaks("LGP-205")
class RawLogprobs(Sound):
    """Started without --logprobs-mode processed_logprobs."""

    flags = MappingProxyType({"processed": False})


@breaks("LGP-206")
class FewLogprobs(Sound):
    """Started with --max-logprobs 1."""

    flags = MappingProxyType({"max_logprobs": 1})


class Otherwise(Answerer):
    """Samples at another temperature than it tells."""

    @staticmethod
    def temperature(asked):
        return asked

    def _chances(self, request, prompt_ids, limit):
        other = replace(self._as_forced(request), temperature=self.temperature(request.temperature))
        return [draw(self.tokenizer, prompt_ids, other, n, limit, told=self._told(request)) for n in range(request.n)]


class Greedy(Otherwise):
    temperature = staticmethod(lambda asked: 0.0)


class AlwaysOne(Otherwise):
    temperature = staticmethod(lambda asked: 1.0)


@breaks("LGP-207", "LGP-209", "USE-204")
class AlwaysGreedy(Sound):
    """Always takes the likeliest token."""

    answerer = Greedy


@breaks("LGP-207")
class TemperatureIgnored(Sound):
    """Always samples at temperature 1."""

    answerer = AlwaysOne


@breaks("LGP-208")
class SeedIgnored(Sound):
    """Samples anew whatever the seed is."""

    def asked(self, body):
        return {name: value for name, value in body.items() if name != "seed"}


@breaks("LGP-209")
class OneSeed(Sound):
    """Has one seed for all who name none."""

    def asked(self, body):
        return {"seed": 1, **body}


# -- tool calls -------------------------------------------------------------------------------------------------------------


@breaks("PAR-201")
class NoTools(Sound):
    """Started without --enable-auto-tool-choice."""

    flags = MappingProxyType({"auto_tools": False})


@breaks("PAR-202", "PAR-205")
class CallLeftInTheText(Sound):
    """Started with the parser of another model: a call stays text."""

    def asked(self, body):
        return {**body, "tool_choice": "none"} if body.get("tools") and body.get("tool_choice") in (None, "auto") else body


def each_call(change):
    def said(self, document, body):
        for message in messages(document):
            for call in message.get("tool_calls") or ():
                change(call)
        return document

    return said


@breaks("PAR-202", "PAR-204", "PAR-205", "STR-202")
class NullCallId(Sound):
    """Gives calls no id."""

    said = each_call(lambda call: call.update(id=None))


@breaks("PAR-203", "PAR-205", "TOK-207", "TOK-208")
class EmptiedArguments(Sound):
    """Tells every call with empty arguments."""

    def said(self, document, body):
        if not body.get("stream"):
            for message in messages(document):
                for call in message.get("tool_calls") or ():
                    call["function"]["arguments"] = "{}"
        return document

    def streamed(self, chunks, body):
        begun = set()
        for chunk in chunks:
            for message in messages(chunk):
                for call in message.get("tool_calls") or ():
                    call["function"]["arguments"] = "" if call["index"] in begun or "arguments" not in call["function"] else "{}"
                    begun |= {call["index"]} if call["function"]["arguments"] else set()
        return chunks


@breaks("PAR-203", "PAR-205", "TOK-207", "TOK-208")
class RepairedArguments(Sound):
    """Tells the characters of arguments that are not ASCII as question marks."""

    said = each_call(
        lambda call: call["function"].update(arguments=re.sub(r"\\u[0-9a-f]{4}|[^\x00-\x7f]", "?", call["function"].get("arguments") or ""))
    )


@breaks("PAR-204")
class CallIdsBeginAgain(Sound):
    """Numbers the calls of every message from 0 on (vLLM issue 50295)."""

    def said(self, document, body):
        for message in messages(document):
            for number, call in enumerate(message.get("tool_calls") or ()):
                if call.get("id"):
                    call["id"] = f"functions.bash:{call.get('index', number)}"
        return document


@breaks("PAR-205")
class OneIdForAllCalls(Sound):
    """Gives the calls of one reply one id."""

    def said(self, document, body):
        ids = [call for message in messages(document) for call in message.get("tool_calls") or () if call.get("id")]
        for call in ids:
            call["id"] = f"call-{document['id']}"
        return document


@breaks("PAR-205")
class OnlyTheFirstCall(Sound):
    """Tells the first of parallel calls alone."""

    def said(self, document, body):
        for message in messages(document):
            if message.get("tool_calls"):
                message["tool_calls"] = [call for number, call in enumerate(message["tool_calls"]) if call.get("index", number) == 0]
        return document


@breaks("PAR-205")
class ReversedCalls(Sound):
    """Tells parallel calls with the last first, in whole replies."""

    def said(self, document, body):
        for message in messages(document):
            if message.get("tool_calls") and not body.get("stream"):
                message["tool_calls"].reverse()
        return document


@breaks("PAR-206")
class NoneIgnored(Sound):
    """Calls tools although tool_choice is none."""

    def asked(self, body):
        return {**body, "tool_choice": "auto"} if body.get("tool_choice") == "none" else body


@breaks("PAR-207")
class RequiredIgnored(Sound):
    """Takes required for auto."""

    def asked(self, body):
        return {**body, "tool_choice": "auto", "max_tokens": 64, "temperature": 1.0} if body.get("tool_choice") == "required" else body

    said = each_choice(
        lambda choice, body: choice.update(finish_reason="stop") if body.get("max_tokens") == 64 and choice.get("finish_reason") else None
    )


@breaks("PAR-208")
class AnotherToolThanNamed(Sound):
    """Calls whichever tool it likes where one is named."""

    def asked(self, body):
        named = isinstance(body.get("tool_choice"), dict)
        return {**body, "tool_choice": {"type": "function", "function": {"name": "bash"}}} if named else body


@breaks("PAR-209")
class ParallelIgnored(Sound):
    """Tells several calls although parallel_tool_calls is false."""

    def asked(self, body):
        return {name: value for name, value in body.items() if name != "parallel_tool_calls"}


# -- streams ----------------------------------------------------------------------------------------------------------------


@breaks("FIN-205", "STR-201", "TOK-205")
class LostPieceOfAStream(Sound):
    """Leaves the second piece of text out of a stream."""

    def streamed(self, chunks, body):
        places = [message for chunk in chunks for message in messages(chunk) if message.get("content")]
        for message in places[1:2]:
            message["content"] = ""
        return chunks


@breaks("STR-202")
class IdOfEachChunk(Sound):
    """Gives each chunk of a stream an id of its own."""

    def streamed(self, chunks, body):
        return [{**chunk, "id": f"{chunk['id']}-{number}"} for number, chunk in enumerate(chunks)]


@breaks("STR-203")
class AllInOneChunk(Sound):
    """Makes a stream of one chunk when the reply is whole."""

    def streamed(self, chunks, body):
        if body.get("n", 1) != 1:
            return chunks
        first, parts = chunks[0], [choice for chunk in chunks[1:] for choice in choices(chunk)]
        calls = {}
        for part in parts:
            for call in part["delta"].get("tool_calls") or ():
                whole = calls.setdefault(call["index"], {"index": call["index"], "function": {"name": "", "arguments": ""}})
                whole |= {name: call[name] for name in ("id", "type") if name in call}
                for name in ("name", "arguments"):
                    whole["function"][name] += call["function"].get(name) or ""
        delta = {name: "".join(part["delta"].get(name) or "" for part in parts) for name in ("content", "reasoning")}
        whole = {
            "index": 0,
            "delta": delta | ({"tool_calls": list(calls.values())} if calls else {}),
            "logprobs": {"content": [entry for part in parts for entry in entries(part)]},
            "token_ids": [token for part in parts for token in part["token_ids"] or ()] if body.get("return_token_ids") else None,
            "finish_reason": parts[-1]["finish_reason"],
            "stop_reason": parts[-1].get("stop_reason"),
        }
        return [first, {**first, "choices": [whole]}, *[chunk for chunk in chunks if not choices(chunk)]]


# -- ends -------------------------------------------------------------------------------------------------------------------


@breaks("FIN-201", "FIN-202", "FIN-203", "FIN-205", "FIN-208", "STR-202")
class NoFinish(Sound):
    """Never says why it ended."""

    said = each_choice(lambda choice, body: choice.update(finish_reason=None))


def finish(when, reason):
    """A fault that tells another reason where one is told."""
    return each_choice(
        lambda choice, body: (
            choice.update(finish_reason=reason) if choice.get("finish_reason") and when(choice["finish_reason"], body) else None
        )
    )


@breaks("FIN-202")
class CutSaysStop(Sound):
    """Says stop where a text met its limit."""

    said = finish(lambda reason, body: reason == "length" and not calling(body), "stop")


@breaks("FIN-203")
class TruncationToldAsACall(Sound):
    """Says tool_calls although the limit cut the call (vLLM issues 53269 and 58228)."""

    said = finish(lambda reason, body: reason == "length" and calling(body), "tool_calls")


@breaks("FIN-208")
class CallsSayStop(Sound):
    """Says stop where there are calls."""

    said = finish(lambda reason, body: reason == "tool_calls", "stop")


@breaks("FIN-204")
class NewNameOfTheLimitIgnored(Sound):
    """Knows max_tokens alone."""

    def asked(self, body):
        return {name: value for name, value in body.items() if name != "max_completion_tokens"}


@breaks("FIN-204")
class OneTokenTooMany(Sound):
    """Samples one token more than its limit."""

    def asked(self, body):
        if body.get("max_tokens", 0) > 1:
            return {**body, "max_tokens": body["max_tokens"] + 1}
        return body


@breaks("FIN-205", "FIN-207")
class StopIgnored(Sound):
    """Does not stop at a stop string."""

    def asked(self, body):
        return {name: value for name, value in body.items() if name != "stop"}


@breaks("FIN-205")
class StopStringKept(Sound):
    """Leaves the stop string in the text."""

    def asked(self, body):
        return {**body, "include_stop_str_in_output": True}


@breaks("FIN-206")
class IdsCutAtTheStop(Sound):
    """Cuts the ids as it cuts the text."""

    def said(self, document, body):
        for choice in choices(document):
            if choice.get("stop_reason") and choice.get("token_ids"):
                choice["token_ids"] = choice["token_ids"][:-1]
        return document


@breaks("FIN-207")
class StopNotTold(Sound):
    """Does not say which string it stopped at."""

    said = each_choice(lambda choice, body: choice.update(stop_reason=None))


@breaks("FIN-209")
class Lingering(Sound):
    """Works on for a client that has gone."""

    def ended(self):
        pass


# -- errors and usage -------------------------------------------------------------------------------------------------------


@breaks("ERR-201")
class CutsThePrompt(Sound):
    """Cuts a prompt that is too long, without a word."""

    def asked(self, body):
        found = body.get("messages")
        if not isinstance(found, list) or not found or not isinstance(found[0], dict):
            return body
        return {
            **body,
            "messages": [{**message, "content": message["content"][:4000]} if message.get("content") else message for message in found],
        }


@breaks("ERR-201")
class NamelessOverflow(Sound):
    """Refuses a prompt that is too long without saying so."""

    def refused(self, status, document):
        if "maximum context" in document["error"]["message"]:
            document["error"]["message"] = "Bad request."
        return status, document


@breaks("ERR-201", "ERR-202", "ERR-203")
class ErrorsAsDetail(Sound):
    """Refuses in a form of its own."""

    def refused(self, status, document):
        return status, {"detail": document["error"]["message"]}


@breaks("ERR-201", "ERR-202", "ERR-203")
class EveryErrorIs500(Sound):
    """Takes every bad request for a failure of its own."""

    def refused(self, status, document):
        return 500, document


@breaks("ERR-203")
class TakesEveryValue(Sound):
    """Puts a sound value in the place of one that means nothing."""

    def asked(self, body):
        sound = {
            "temperature": lambda v: v >= 0,
            "top_p": lambda v: v > 0,
            "max_tokens": lambda v: v > 0,
            "n": lambda v: v > 0,
            "model": "served".__eq__,
        }
        kept = {name: value for name, value in body.items() if name not in sound or sound[name](value)}
        return kept | ({"messages": [{"role": "user", "content": "Hello"}]} if kept.get("messages") == [] else {})


def usage(change):
    def said(self, document, body):
        if document.get("usage"):
            change(document["usage"])
        return document

    return said


@breaks("FIN-206", "TOK-202", "TOK-203", "USE-201", "USE-203")
class OneTokenUncounted(Sound):
    """Does not count the end of the turn."""

    said = usage(lambda told: told.update(completion_tokens=told["completion_tokens"] - 1, total_tokens=told["total_tokens"] - 1))


@breaks("FIN-206", "STR-201", "TOK-202", "TOK-203", "USE-201", "USE-202", "USE-203")
class NoUsageInStreams(Sound):
    """Tells usage in whole replies alone."""

    def streamed(self, chunks, body):
        return [chunk for chunk in chunks if not chunk.get("usage")]


@breaks("USE-202")
class WrongTotal(Sound):
    """Adds wrongly."""

    said = usage(lambda told: told.update(total_tokens=told["total_tokens"] + 1))


@breaks("USE-203")
class OneChoice(Sound):
    """Gives one choice whatever is asked for."""

    def asked(self, body):
        return {name: value for name, value in body.items() if name != "n" or not value}


@breaks("USE-203", "USE-204")
class SharedIds(Sound):
    """Tells every choice with the ids of the first (SGLang pull 34416)."""

    def said(self, document, body):
        told = choices(document)
        if body.get("n", 1) > 1 and not body.get("stream"):
            for choice in told[1:]:
                choice["token_ids"] = told[0]["token_ids"]
        return document


class Copies(Answerer):
    def _chances(self, request, prompt_ids, limit):
        return [super()._chances(replace(request, n=1), prompt_ids, limit)[0]] * request.n


@breaks("USE-204")
class SameChoices(Sound):
    """Samples once and tells it as often as it was asked for."""

    answerer = Copies

    def asked(self, body):
        return body


class Bench:
    """All of them behind one address, each below its name."""

    def __init__(self) -> None:
        self.engines = {cls.__name__: cls() for cls in (Sound, *BREAKS)}

    async def __call__(self, scope, receive, send):
        _, name, path = scope["path"].split("/", 2)
        await self.engines[name]({**scope, "path": f"/{path}"}, receive, send)
