"""An engine that plays SGLang's chat completions, as far as what is published says how they differ from vLLM's.

From https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/serving_chat.py, ``serving_tokenize.py`` and
``protocol.py`` beside it: the ids of the prompt stand in each choice, beside those that were sampled; a stream with ``return_token_ids`` is
refused; errors are flat; logprobs name tokens by their text; ``structured_outputs`` means nothing; there is no ``/version``; ``/tokenize``
takes no conversation; ``/detokenize`` leaves specials out unless it is told not to. What is sampled is the scripted engine's.
"""

from __future__ import annotations

import json

from pytest_harness.engines.scripted import Script, ScriptedEngine

REFUSAL = (
    "return_token_ids is not supported with streaming on /v1/chat/completions. Please set stream=false when using return_token_ids=true."
)
CONTEXT = 2048
VLLM_ONLY = ("prompt_logprobs", "prompt_text", "kv_transfer_params", "ec_transfer_params", "metrics", "system_fingerprint")


class SglangWire:
    """The scripted engine behind SGLang's wire."""

    def __init__(self, script: Script | None) -> None:
        self.scripted = ScriptedEngine(script, model="served", max_model_len=CONTEXT, tokens_as_ids=False)

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "http" and scope["path"] == "/version":
            await answer(send, 404, {"detail": "Not Found"})
        elif scope["type"] == "http" and scope["path"] in ("/v1/chat/completions", "/tokenize", "/detokenize"):
            asked = await whole(receive)
            if not isinstance(asked, dict):
                await answer(send, 400, error("Input should be a valid dictionary"))
            elif scope["path"] == "/tokenize":
                await self._tokenize(asked, send)
            elif scope["path"] == "/detokenize":
                ids = [
                    number
                    for number in asked["tokens"]
                    if asked.get("skip_special_tokens") is False or number not in self.scripted.tokenizer.specials
                ]
                await answer(send, 200, {"text": self.scripted.tokenizer.decode(ids)})
            else:
                await self._chat(asked, scope, receive, send)
        else:
            await self.scripted(scope, receive, send)

    async def _tokenize(self, asked, send) -> None:
        if not isinstance(asked.get("prompt"), str):
            await answer(send, 400, error("Field required: prompt"))
            return
        ids = self.scripted.tokenizer.encode(asked["prompt"])
        await answer(send, 200, {"tokens": ids, "count": len(ids), "max_model_len": CONTEXT})

    async def _chat(self, asked, scope, receive, send) -> None:
        for unknown in ("return_tokens_as_token_ids", "structured_outputs"):
            asked.pop(unknown, None)
        if asked.get("stream") and asked.get("return_token_ids"):
            await answer(send, 400, error(REFUSAL))
            return
        left = [{"type": "http.request", "body": json.dumps(asked).encode(), "more_body": False}]
        events: list[dict] = []

        async def again():
            return left.pop() if left else await receive()

        async def keep(event):
            events.append(event)

        if asked.get("stream"):
            await self.scripted(scope, again, send)
            return
        await self.scripted(scope, again, keep)
        document = json.loads(b"".join(event.get("body", b"") for event in events))
        status = events[0]["status"]
        await answer(send, status, told(document) if status == 200 else error(document["error"]["message"]))


async def whole(receive):
    """The body of a request, as JSON; None for what is none."""
    body = b""
    while (event := await receive())["type"] == "http.request":
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    try:
        return json.loads(body)
    except ValueError:
        return None


def told(document: dict) -> dict:
    """A reply as SGLang writes it."""
    prompt = document.pop("prompt_token_ids", None)
    for choice in document["choices"]:
        choice["matched_stop"] = choice.pop("stop_reason", None)
        choice.pop("routed_experts", None)
        if prompt is not None:
            choice["prompt_token_ids"] = prompt
    return {name: value for name, value in document.items() if name not in VLLM_ONLY} | {"metadata": {"weight_version": "default"}}


def error(message: str) -> dict:
    """An error, which stands in no ``error`` of its own."""
    return {"object": "error", "message": message, "type": "BadRequest", "param": None, "code": 400}


async def answer(send, status: int, document: dict) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})
