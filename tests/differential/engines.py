"""Sends one request to the scripted engine and to a vLLM that is steered by the same script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import httpx

from pytest_harness.engines.scripted import Script, ScriptedEngine
from pytest_harness.engines.scripted.script import ScriptMismatchError
from pytest_harness.engines.vllm import Serving, Steering
from pytest_harness.engines.vllm.steering import FIELD
from pytest_harness.serving import BackgroundServer

from .comparison import Answer
from .corpus import CHAT, MAX_MODEL_LEN, MODEL, Case

PATIENCE = 30


class Engines:
    """Both engines. Scripted ones are started as scripts are met."""

    def __init__(self, vllm: Serving, stack: ExitStack) -> None:
        self._stack = stack
        self._vllm = self._client(vllm.url.removesuffix("/v1"), vllm.api_key)
        self._scripted: dict[int, tuple[Script | None, httpx.Client]] = {}

    @property
    def version(self) -> str:
        """What vLLM says of itself."""
        return str(self._vllm.get("/version").json()["version"])

    def ours(self, case: Case) -> Answer:
        """What the scripted engine answers."""
        _, client = self._scripted.get(id(case.script)) or self._start(case.script)
        return self._send(client, case, {})

    def theirs(self, case: Case) -> Answer:
        """What vLLM answers."""
        return self._send(self._vllm, case, _steering(case))

    def _start(self, script: Script | None) -> tuple[Script | None, httpx.Client]:
        key = "sk-differential"
        engine = ScriptedEngine(script, model=MODEL, max_model_len=MAX_MODEL_LEN, api_key=key)
        server = self._stack.enter_context(BackgroundServer(engine))
        self._scripted[id(script)] = script, self._client(server.listen().url, key)
        return self._scripted[id(script)]

    def _client(self, url: str, key: str) -> httpx.Client:
        headers = {"authorization": f"Bearer {key}"}
        return self._stack.enter_context(httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, trust_env=False))

    @staticmethod
    def _send(client: httpx.Client, case: Case, steering: Mapping[str, Any]) -> Answer:
        raw = body_of(case, steering) if case.raw is None else case.raw
        reply = client.request(case.method, case.path, content=raw, headers=case.headers or {"content-type": "application/json"})
        return Answer(reply.status_code, reply.headers.get("content-type", ""), reply.content.decode())


def body_of(case: Case, steering: Mapping[str, Any]) -> bytes:
    """The request as it is sent. A lone surrogate stays escaped."""
    body = {"model": MODEL, **case.fields, **steering}
    return json.dumps({key: value for key, value in body.items() if value is not ...}).encode()


def _steering(case: Case) -> Mapping[str, Any]:
    if case.raw is not None or case.path != CHAT or case.script is None:
        return {}
    try:
        steering = Steering(case.script).fields({key: value for key, value in case.fields.items() if value is not ...})
    except ScriptMismatchError:
        return {}
    if steering and case.fields.get("tool_choice", "auto") not in ("none", "auto", "required"):
        # vLLM takes no choice beside a named tool, but a grammar.
        return {FIELD: {"grammar": f"root ::= {json.dumps(steering[FIELD]['choice'][0], ensure_ascii=False)}"}}
    return steering
