"""What an agent may send, and what of it the engine gets."""

import json
import zlib

import brotli
import zstandard

LIMIT = 32 << 20
"""Bytes of a request, as sent and as unpacked."""
DISTORTING = (
    "add_generation_prompt",
    "chat_template",
    "chat_template_kwargs",
    "continue_final_message",
    "echo",
    "prompt_logprobs",
    "truncate_prompt_tokens",
)
"""What would make the prompt another than the messages say, or the ids others than were sampled."""
PASSED = frozenset(
    {
        "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "messages", "min_p", "n",
        "parallel_tool_calls", "presence_penalty", "reasoning_effort", "repetition_penalty", "response_format", "seed", "stop",
        "stream", "stream_options", "structured_outputs", "temperature", "tool_choice", "tools", "top_k", "top_logprobs",
        "top_p", "user",
    }
)  # fmt: skip


class RefusedError(Exception):
    """A request that goes no further; ``status`` is what the agent is answered with."""

    def __init__(self, message, status=400):
        super().__init__(message)
        self.status = status


def unpacked(data, encoding):
    """The body without its content encoding. Raises RefusedError."""
    try:
        match encoding.strip().lower():
            case "" | "identity":
                return data
            case "gzip" | "deflate":
                unpacker = zlib.decompressobj(wbits=47)
                text = unpacker.decompress(data, LIMIT)
                if unpacker.unconsumed_tail:
                    raise RefusedError(f"The request unpacks to more than {LIMIT} bytes.", 413)
                return text
            case "br":
                return brotli.decompress(data)
            case "zstd":
                return zstandard.ZstdDecompressor().decompress(data, max_output_size=LIMIT)
    except (zlib.error, brotli.error, zstandard.ZstdError) as error:
        raise RefusedError(f"The request cannot be unpacked: {error}.") from None
    raise RefusedError(f"The content encoding {encoding} is not known here.", 415)


def read(data, encoding):
    """The request as an object. Raises RefusedError."""
    try:
        asked = json.loads(unpacked(data, encoding))
    except ValueError:
        raise RefusedError("The request is no JSON.") from None
    if not isinstance(asked, dict) or not isinstance(asked.get("messages"), list):
        raise RefusedError("The request must be an object with a list of messages.")
    asked = {name: value for name, value in asked.items() if value is not None}
    for name in DISTORTING:
        if name in asked:
            raise RefusedError(f"{name} would change what is captured; leave it out.")
    return asked


def forwarded(asked, model):
    """What the engine is asked instead: the same, for its own model, and with ids and logprobs."""
    passed = {name: value for name, value in asked.items() if name in PASSED}
    return {**passed, "model": model, "logprobs": True, "return_token_ids": True}
