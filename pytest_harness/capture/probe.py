"""What an engine can return, found out by asking it: five tiny requests, two of them streamed.

The level is the highest that a whole reply reaches: ``tokens`` (prompt ids, one id and one logprob a sampled token), ``logprobs``,
``text``. Where a stream reaches less, or is refused beside tools, the engine is to be asked for whole replies, of which the proxy makes
streams. Only ``tokens``
may train, and not with *raw* logprobs, those of temperature 1 whatever was asked for: the gaps between the likeliest tokens must halve
at temperature 2. Where that cannot be measured, that is said.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from pytest_harness.capture.upstream import Upstream

Level = Literal["tokens", "logprobs", "text"]
LogprobMode = Literal["processed", "raw", "unknown"]

LEVELS: tuple[Level, ...] = ("text", "logprobs", "tokens")
PROMPT = "Say hi."
_SECONDS = 60.0
"""How long one request may take, from its first byte to the last of its reply."""
_BYTES = 16 << 20
"""How long one reply may be: those asked for have a few kilobytes, a long list of models a few megabytes."""
_ALTERNATIVES = 5
_SMALLEST_GAP = 1e-3
_SENTINEL = -1000.0
"""Engines say -9999 and the like for what has no probability."""
_SHOWN = 300
_TOOL = {"type": "function", "function": {"name": "wait", "description": "Wait.", "parameters": {"type": "object", "properties": {}}}}

_REMEDIES = {
    "prompt_token_ids": "vLLM returns it from 0.10.2 on when asked by return_token_ids, as this proxy does; use a newer one",
    "token_ids": "vLLM returns it from 0.10.2 on when asked by return_token_ids, as this proxy does; use a newer one",
    "logprobs": "start vLLM without a --max-logprobs that forbids them",
    "one logprob for each id": "start vLLM with --return-tokens-as-token-ids and see which ids have none",
}


_WITHOUT_WEIGHTS = {"scripted": "says what a script makes it say", "chance": "says what chance has it say"}
"""Those of the embedded engine, which tells vLLM's version and this behind it."""


class ProbeError(Exception):
    """An engine that cannot be used as asked; the message says why and what to do."""


class _RefusedError(ProbeError):
    """A tiny request that is answered with an error."""

    def __init__(self, url: str, said: str, request: Mapping[str, Any]) -> None:
        with_ids = " with logprobs and token ids" if "return_token_ids" in request else ""
        super().__init__(f"the engine at {url} refuses a tiny request{with_ids} ({said})")
        self.said = said


@dataclass(frozen=True, slots=True)
class Mode:
    """What one of the two replies held. ``missing`` names what it lacks for the level ``tokens``."""

    level: Level
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """What is known of an engine."""

    model: str
    version: str | None
    """vLLM's own version, where it tells one."""
    whole: Mode
    streamed: Mode
    logprobs: LogprobMode = "unknown"
    refusal: str | None = None
    """What it says to a request that asks for ids and logprobs; None where it takes one."""
    streams_tools: bool = True
    """Whether it takes such a request as a stream too when tools are offered; llama.cpp takes it only as a whole one."""
    streams_ids: bool = True
    """Whether it takes a request for ids as a stream too; SGLang refuses it."""

    @property
    def level(self) -> Level:
        """What the engine reaches: in whole replies, from which streams can be made where its own lose something."""
        return self.whole.level

    @property
    def buffered(self) -> bool:
        """Whether its streams lose what its whole replies have, or are refused, so that it should be asked for whole replies only."""
        return LEVELS.index(self.streamed.level) < LEVELS.index(self.whole.level) or not self.streams_tools

    def require(self, level: Level, url: str) -> None:
        """Raises ProbeError if the engine returns less than ``level``, or raw logprobs for ``tokens``, naming what is missing."""
        if self.refusal is not None:
            raise ProbeError(f"the engine at {url} refuses a tiny request with logprobs and token ids ({self.refusal})")
        if level == self.level == "tokens" and self.logprobs == "raw":
            raise ProbeError(f"{self._raw(url)}, or start this with --level logprobs")
        if LEVELS.index(self.level) >= LEVELS.index(level):
            return
        raise ProbeError(f"{self._too_little(level, url)}, or start this with --level {self.level}")

    def falls_short(self, promised: Level, url: str, *, train: bool) -> str | None:
        """Why an engine that had this level, and may have been trained with, does not do any more; None if it does."""
        if LEVELS.index(self.level) < LEVELS.index(promised):
            return f"{self._too_little(promised, url)}, as it did when it was first asked"
        return self.speaks_against_training(url) if train else None

    def require_training(self, url: str) -> None:
        """Raises ProbeError if its replies may not be trained on."""
        if (reason := self.speaks_against_training(url)) is not None:
            raise ProbeError(reason)

    def speaks_against_training(self, url: str) -> str | None:
        """Why its replies may not be trained on, in one sentence that says what to do; None if they may."""
        if self.refusal is not None:
            return f"the engine at {url} refuses a tiny request with logprobs and token ids ({self.refusal}); use one that returns them"
        if self.level != "tokens":
            return self._too_little("tokens", url)
        if self.logprobs == "raw":
            return self._raw(url)
        if self.logprobs == "unknown":
            return (
                f"whether the logprobs of the engine at {url} are those of the temperature that it samples with could not be measured; "
                f"let it tell the {_ALTERNATIVES} likeliest tokens (vLLM: --max-logprobs {_ALTERNATIVES} or more)"
            )
        if (plays := self._plays()) is not None:
            return f"the engine at {url} is a scripted one of this project, which {plays}; name one that samples from weights"
        return None

    def _plays(self) -> str | None:
        """What an engine without weights says instead of sampling, by the local part of its version."""
        return None if self.version is None else _WITHOUT_WEIGHTS.get(self.version.partition("+")[2])

    def _raw(self, url: str) -> str:
        return (
            f"the engine at {url} returns raw logprobs, which are not those of the temperature that it samples with; "
            "start vLLM with --logprobs-mode processed_logprobs"
        )

    def _too_little(self, level: Level, url: str) -> str:
        wanted = [name for name in self.whole.missing if level == "tokens" or name == "logprobs"]
        name = f"vLLM {self.version}" if self.version else "the engine"
        remedy = _REMEDIES.get(wanted[0], "") if wanted else ""
        return f"{name} at {url} returns no {' and no '.join(wanted)}, so it cannot serve the level {level}; {remedy}"


def probe(url: str, *, model: str | None = None, api_key: str | None = None) -> Probe:
    """Ask the engine at ``url`` which model it serves (``model`` if it serves that) and what it returns.

    Raises ProbeError, or UpstreamError for a URL or key that cannot be one.
    """
    upstream = Upstream(url=url, model=model or "", api_key=api_key)
    headers = {"accept-encoding": "identity"} | ({} if api_key is None else {"authorization": f"Bearer {api_key}"})
    with httpx.Client(headers=headers, timeout=_SECONDS, trust_env=False) as client:
        served = _served(client, upstream, model)
        request = {
            "model": served,
            "messages": [{"role": "user", "content": PROMPT}],
            "max_tokens": 4,
            "logprobs": True,
            "top_logprobs": 0,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }
        try:
            first = _ask(client, upstream, request)
        except _RefusedError as refusal:
            plain = {name: request[name] for name in ("model", "messages", "max_tokens")}
            mode = _mode([_object(_ask(client, upstream, plain), url)])
            return Probe(served, _version(client, upstream), mode, mode, refusal=refusal.said)
        whole = _mode([_object(first, url)])
        streaming = {"stream": True, "stream_options": {"include_usage": True}}
        streamed = _streamed(client, upstream, request | streaming)
        streams_ids = streamed is not None
        if streamed is None:  # as SGLang says: it tells ids in whole replies only
            without_ids = {name: value for name, value in request.items() if name != "return_token_ids"}
            streamed = _streamed(client, upstream, without_ids | streaming) or Mode("text", ("stream of what was asked for",))
        tools = _takes(client, upstream, request | {"tools": [_TOOL]} | streaming) or not _takes(
            client, upstream, request | {"tools": [_TOOL]}
        )
        logprobs = _logprob_mode(client, upstream, request)
        return Probe(served, _version(client, upstream), whole, streamed, logprobs, streams_tools=tools, streams_ids=streams_ids)


def _served(client: httpx.Client, upstream: Upstream, model: str | None) -> str:
    """The model to ask for: the one that was named, or the only one there is."""
    try:
        reply = _reply(client, upstream, "GET", upstream.endpoint("/models"))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ProbeError(f"the engine at {upstream.url} cannot be reached ({_reason(error)}); start it, or correct --llm-url") from None
    if reply.status_code in (401, 403):
        raise ProbeError(f"the engine at {upstream.url} refuses the key (status {reply.status_code}); name its variable with --llm-key-env")
    if reply.status_code != 200:
        if model is not None:
            return model  # not every engine lists its models
        raise ProbeError(
            f"the engine at {upstream.url} does not list its models (status {reply.status_code}); "
            "name one with --model, or correct --llm-url"
        )
    document = _parsed(reply.text)
    if not isinstance(document, dict) and model is None:
        raise ProbeError(f"what answers at {upstream.url} is no engine: its list of models is no JSON object; correct --llm-url")
    data = document.get("data") if isinstance(document, dict) else None
    names = [card["id"] for card in data if isinstance(card, dict) and isinstance(card.get("id"), str)] if isinstance(data, list) else []
    if model is not None and (model in names or not names):
        return model
    if model is not None:
        raise ProbeError(f"the engine at {upstream.url} does not serve {model}; it serves {', '.join(names)}")
    if len(names) != 1:
        listed = ", ".join(names) or "no model that it names"
        raise ProbeError(f"the engine at {upstream.url} serves {listed}; name one with --model")
    return str(names[0])


def _ask(client: httpx.Client, upstream: Upstream, request: Mapping[str, Any]) -> str:
    try:
        reply = _reply(client, upstream, "POST", upstream.endpoint("/chat/completions"), request)
    except httpx.HTTPError as error:
        raise ProbeError(f"the engine at {upstream.url} gives no reply to a tiny request ({_reason(error)}); see its log") from None
    if reply.status_code in (401, 403):
        raise ProbeError(f"the engine at {upstream.url} refuses the key (status {reply.status_code}); name its variable with --llm-key-env")
    if reply.status_code != 200:
        raise _RefusedError(upstream.url, f"status {reply.status_code}: {reply.text[:_SHOWN]}".replace("\n", " "), request)
    return reply.text


def _streamed(client: httpx.Client, upstream: Upstream, request: Mapping[str, Any]) -> Mode | None:
    """What a stream holds; None where it is refused."""
    try:
        return _mode(list(_chunks(_ask(client, upstream, request), upstream.url)))
    except _RefusedError:
        return None


def _takes(client: httpx.Client, upstream: Upstream, request: Mapping[str, Any]) -> bool:
    """Whether such a request is answered."""
    try:
        _ask(client, upstream, request)
    except _RefusedError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Reply:
    status_code: int
    text: str


def _reply(client: httpx.Client, upstream: Upstream, method: str, url: str, body: Mapping[str, Any] | None = None) -> _Reply:
    """The whole reply. Raises ProbeError for one that is too long or takes too long, and what httpx raises.

    The limits of httpx are for each read, so an engine that dribbles meets none of them: it is waited for here, and then hung up on.
    """
    outcome: list[_Reply | Exception] = []
    until = time.monotonic() + _SECONDS
    too_long = ProbeError(f"the engine at {upstream.url} replies to {url} with more than {_BYTES} bytes; correct --llm-url")
    too_slow = ProbeError(
        f"the engine at {upstream.url} gave no whole reply to {url} within {_SECONDS:g} s; see its log, or correct --llm-url"
    )

    def read() -> _Reply | Exception:
        with client.stream(method, url, json=body) as response:
            data = bytearray()
            for part in response.iter_bytes():
                data += part
                if len(data) > _BYTES:
                    return too_long
                if time.monotonic() > until:
                    return too_slow
            return _Reply(response.status_code, data.decode("utf-8", "replace"))

    def ask() -> None:
        try:
            outcome.append(read())
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            outcome.append(error)

    asking = threading.Thread(target=ask, name="probe", daemon=True)  # left alone, it must not keep this process from its end
    asking.start()
    asking.join(_SECONDS)
    answer = outcome[0] if outcome else too_slow
    if isinstance(answer, httpx.ReadTimeout):
        answer = too_slow
    if isinstance(answer, Exception):
        raise answer
    return answer


def _object(text: str, url: str) -> dict[str, Any]:
    document = _parsed(text)
    if not isinstance(document, dict) or not isinstance(document.get("choices"), list):
        raise ProbeError(f"the engine at {url} answers with something that is no chat completion; check --llm-url")
    return document


def _chunks(text: str, url: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            yield _object(data, url)


def _mode(documents: Sequence[Mapping[str, Any]]) -> Mode:
    """What a reply holds, whole or in chunks."""
    prompt, ids, logprobs = False, 0, 0
    for document in documents:
        prompt = prompt or bool(document.get("prompt_token_ids"))
        for choice in document["choices"]:
            if not isinstance(choice, dict):
                continue
            prompt = prompt or bool(choice.get("prompt_token_ids"))  # where SGLang tells them
            token_ids, entries = choice.get("token_ids"), choice.get("logprobs")
            content = entries.get("content") if isinstance(entries, dict) else None
            ids += len(token_ids) if isinstance(token_ids, list) else 0
            logprobs += len(content) if isinstance(content, list) else 0
    missing = [name for name, there in (("prompt_token_ids", prompt), ("token_ids", ids), ("logprobs", logprobs)) if not there]
    if not missing and ids != logprobs:
        missing.append("one logprob for each id")
    return Mode("text" if not logprobs else "logprobs" if missing else "tokens", tuple(missing))


def _logprob_mode(client: httpx.Client, upstream: Upstream, request: Mapping[str, Any]) -> LogprobMode:
    """Compares the likeliest first tokens at temperatures 1 and 2; processing keeps their order and halves their distances."""
    asked = {**request, "max_tokens": 1, "top_logprobs": _ALTERNATIVES, "top_p": 1.0, "top_k": -1, "min_p": 0.0}
    found = []
    for temperature in (1.0, 2.0):
        try:
            found.append(_likeliest(_object(_ask(client, upstream, {**asked, "temperature": temperature}), upstream.url)))
        except ProbeError:
            return "unknown"  # the engine answers, but not this
    cold, hot = found
    both = [token for token in cold if token in hot]
    if len(both) < 2:
        return "unknown"
    best, worst = max(both, key=cold.__getitem__), min(both, key=cold.__getitem__)
    gap = cold[best] - cold[worst]
    if gap < _SMALLEST_GAP:
        return "unknown"
    ratio = (hot[best] - hot[worst]) / gap
    return "processed" if 0.4 < ratio < 0.6 else "raw" if 0.9 < ratio < 1.1 else "unknown"


def _likeliest(document: Mapping[str, Any]) -> dict[str, float]:
    """The logprobs of the likeliest tokens at the first position; empty where they are not told."""
    try:
        entries = document["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        told = {str(entry["token"]): float(entry["logprob"]) for entry in entries}
    except (KeyError, IndexError, TypeError, ValueError):
        return {}
    return {token: logprob for token, logprob in told.items() if _SENTINEL < logprob <= 0}


def _version(client: httpx.Client, upstream: Upstream) -> str | None:
    """What vLLM tells under ``/version``, beside ``/v1``."""
    try:
        reply = _reply(client, upstream, "GET", upstream.endpoint("/x").removesuffix("/x").removesuffix("/v1") + "/version")
    except (httpx.HTTPError, ProbeError):
        return None
    document = _parsed(reply.text) if reply.status_code == 200 else None
    version = document.get("version") if isinstance(document, dict) else None
    return version[:_SHOWN] if isinstance(version, str) else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
