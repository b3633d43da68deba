"""The event that makes up nearly all of a stream, one sampled token as vLLM and SGLang write it, cut by one regular expression.

The expression spells the whole event out, down to the strings and numbers in it, so what matches is that event and nothing else. What does
not match is left to ``cuts``, which looks at any JSON, and both give the same (a property test holds them to it).
"""

from __future__ import annotations

import re

import msgspec

from pytest_harness.capture.dialects.call_ids import CallIds
from pytest_harness.capture.dialects.chat_reply import Wishes

_STRING = rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_WHOLE = rb"(?:0|[1-9][0-9]*+)"
_NUMBER = rb"-?%b(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?" % _WHOLE
_WHOLES = rb"%b(?:,%b)*+" % (_WHOLE, _WHOLE)
_TEXT = rb'"(?:content|reasoning|reasoning_content)":(?:null|%b)' % _STRING
_ARGUMENTS = rb'(?:"content":null,)?"tool_calls":\[\{"index":(?P<call>%b),"function":\{"arguments":%b\}\}\]' % (_WHOLE, _STRING)
_ENTRY = rb'\{"token":%b,"logprob":%b,"bytes":(?:null|\[(?:%b)?\]),"top_logprobs":\[\]\}' % (_STRING, _NUMBER, _WHOLES)
_EVENT = re.compile(
    rb'data: \{"id":%(string)b,"object":"chat\.completion\.chunk","created":%(whole)b,"model":%(string)b,"choices":\[\{"index":0,'
    rb'"delta":\{(?P<delta>%(arguments)b|(?:%(text)b(?:,%(text)b)*+)?)\},'
    rb'"logprobs":(?P<logprobs>null|\{"content":\[%(entry)b(?:,%(entry)b)*+\]\}),'
    rb'"finish_reason":null(?:,"stop_reason":null)?(?P<field>,"token_ids":\[(?P<ids>%(wholes)b)\])\}\]\}\n\n'
    % {b"string": _STRING, b"whole": _WHOLE, b"wholes": _WHOLES, b"text": _TEXT, b"arguments": _ARGUMENTS, b"entry": _ENTRY}
)


class Token(msgspec.Struct):
    """``spans`` and ``data`` are what of the event is for the harness, as places in it and as bytes; empty if it came for its ids alone."""

    spans: list[tuple[int, int] | bytes]
    data: bytes
    sampled: int


def cut_token(event: bytes, wishes: Wishes, calls: CallIds) -> Token | None:
    """One event of a stream, with the blank line that ends it; None if it is not of the usual form."""
    found = _EVENT.fullmatch(event)
    if found is None or not (event.isascii() or _is_utf8(event)):
        return None
    call = found["call"]
    if call is not None and not calls.begun(0, int(call)):
        return None
    sampled = found["ids"].count(b",") + 1
    start, stop = found.span("field")
    if wishes.wants_logprobs:
        return Token([(0, start), (stop, len(event))], event[:start] + event[stop:], sampled)
    if not found["delta"]:
        return Token([], b"", sampled)
    begin, end = found.span("logprobs")
    data = b"%bnull%b%b" % (event[:begin], event[end:start], event[stop:])
    return Token([(0, begin), b"null", (end, start), (stop, len(event))], data, sampled)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
