"""Cuts what the harness did not ask for out of the engine's reply without parsing ids, and without writing the reply anew.

Where the engine gave a tool call no id, one is put in, and nothing else is touched.

Only replies of the usual form are cut: one choice, each field once. Anything else is None, and ``chat_reply`` does it in full; both give
documents that are equal.

Why a cut is safe: inside a JSON string a quote is escaped, so ``"prompt_token_ids":[`` can only be a key followed by an array. The array
is replaced by 0, and what is left is read by a strict parser: if the 0 is not found at the top of the document under that key, or the
key occurs again, this was not the usual form. The ids themselves are only looked at as characters.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pytest_harness.capture.dialects.call_ids import CallIds, Fragment
from pytest_harness.capture.dialects.chat_reply import Wishes
from pytest_harness.capture.recipes import common_prefix

_KEY = b'"prompt_token_ids":'
_NAME = b'"prompt_token_ids"'
_ID_CHARACTERS = b"0123456789, []"
_NONE = (b"", b"null")
_EMPTY_DELTA = (b"", b"null", b"{}")
_NO_ID = (*_NONE, b'""')
_TOOL_CALLS = b'"tool_calls"'
_RAW = msgspec.Raw()
"""What a field is that is not there."""

Span = tuple[int, int]
_Gap = tuple[Span, bytes, bytes]
"""Where something is to be put in, and what goes before and after it."""


class _Choice(msgspec.Struct):
    index: msgspec.Raw = _RAW
    message: msgspec.Raw = _RAW
    delta: msgspec.Raw = _RAW
    finish_reason: msgspec.Raw = _RAW
    logprobs: msgspec.Raw = _RAW
    token_ids: msgspec.Raw = _RAW
    prompt_token_ids: msgspec.Raw = _RAW


class _Document(msgspec.Struct):
    choices: list[_Choice]
    error: msgspec.Raw = _RAW
    usage: msgspec.Raw = _RAW
    prompt_token_ids: msgspec.Raw = _RAW
    prompt_logprobs: msgspec.Raw = _RAW


class _ToolCall(msgspec.Struct):
    index: msgspec.Raw = _RAW
    id: msgspec.Raw = _RAW


class _Said(msgspec.Struct):
    tool_calls: list[_ToolCall] | None = None


class _RawCalls(msgspec.Struct):
    tool_calls: msgspec.Raw = _RAW


_DECODER = msgspec.json.Decoder(_Document)
_SAID = msgspec.json.Decoder(_Said)
_RAW_CALLS = msgspec.json.Decoder(_RawCalls)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_TOOL_CALL = msgspec.json.Decoder(_ToolCall)


class Cut(msgspec.Struct):
    """``spans`` are what of the reply is for the harness, in order, with the bytes that take the place of a cut; None if nothing is."""

    spans: list[Span | bytes] | None
    ids: Span | None = None
    """Where the prompt's ids stand, brackets included."""
    sampled: int = 0
    last_words: bool = False
    choices: bool = False


def cut_whole(data: bytes, wishes: Wishes, calls: CallIds, known_ids: bytes = b"") -> Cut | None:
    """A whole reply; ``calls`` has taken it in unless this is None.

    ``known_ids`` are ids that were looked at before, with which those of this prompt probably begin.
    """
    look = _look(data, (0, len(data)), (0, len(data)), known_ids)
    if look is None or len(look.document.choices) != 1:
        return None
    message = bytes(look.document.choices[0].message)
    if message[:1] != b"{":
        return None
    return look.cut(wishes, message, calls, whole=True)


def cut_event(data: bytes, wishes: Wishes, calls: CallIds) -> Cut | None:  # noqa: PLR0911  each is a reason to go the plain way
    """One event of a stream, with the blank line that ends it; ``calls`` has taken it in unless this is None."""
    size = len(data)
    if not (data.startswith(b"data: {") and data.endswith(b"}\n\n")) or data.find(b"\n") != size - 2 or b"\r" in data:
        return None
    look = _look(data, (0, size), (6, size - 2))
    if look is None:
        return None
    document = look.document
    if bytes(document.error) not in _NONE:
        return None
    has_usage = bool(bytes(document.usage))
    if not document.choices:
        if has_usage and not wishes.wants_usage:
            return Cut(None)
        cut = look.cut(wishes, b"", calls)
        if cut is not None:
            cut.last_words = True
        return cut
    if len(document.choices) > 1 or (has_usage and not wishes.wants_usage):
        return None
    [choice] = document.choices
    delta = bytes(choice.delta)
    if delta not in _NONE and not delta.startswith(b"{"):
        return None
    unfinished = bytes(choice.finish_reason) in _NONE
    cut = look.cut(wishes, delta, calls)
    if cut is None:
        return None
    cut.choices, cut.last_words = True, not unfinished
    if unfinished and bytes(choice.token_ids) not in _NONE and not wishes.wants_logprobs and delta.replace(b" ", b"") in _EMPTY_DELTA:
        cut.spans = None  # it came for its ids alone
    return cut


class _Look(msgspec.Struct):
    """A reply without its prompt's ids, parsed as little as possible. ``bounds``, ``start`` and ``ids`` are places in the data."""

    document: _Document
    slim: bytes
    """The JSON alone, its prompt's ids replaced by 0."""
    bounds: Span
    start: int
    """Where the JSON begins."""
    ids: Span | None
    key: int
    """Where the key of the ids begins in ``slim``."""

    def cut(self, wishes: Wishes, said: bytes, calls: CallIds, *, whole: bool = False) -> Cut | None:  # noqa: PLR0911
        """What is left without the cuts; None if the usual way does not do. ``said`` is the message or delta of the one choice."""
        document, slim = self.document, self.slim
        if document.prompt_logprobs is not _RAW and bytes(document.prompt_logprobs) not in _NONE:
            return None
        holes: list[tuple[int, int, bytes]] = []
        sampled = 0
        for choice in document.choices:
            if choice.prompt_token_ids is not _RAW:
                return None
            passing = (0, 0)
            logprobs = bytes(choice.logprobs)
            if not wishes.wants_logprobs and logprobs not in _NONE:
                at = _place(slim, b'"logprobs":', logprobs)
                if at is None:
                    return None
                passing = at[1] - len(logprobs), at[1]
                holes.append((*passing, b"null"))
            ids = bytes(choice.token_ids)
            if ids:
                at = _place(slim, b'"token_ids":', ids, passing)
                if at is None:
                    return None
                span = _with_comma(slim, *at)
                if span is None:
                    return None
                holes.append((*span, b""))
                sampled = ids.count(b",") + 1 if len(ids) > 2 and ids[:1] == b"[" else 0
        if document.prompt_token_ids is not _RAW:
            in_place = None if self.ids is None else (self.key, self.ids[0] - self.start + 1)
            at = in_place or _place(slim, _KEY, bytes(document.prompt_token_ids))
            span = None if at is None else _with_comma(slim, *at)
            if span is None:
                return None
            holes.append((*span, b""))
        if _TOOL_CALLS in said:
            filled = self._filled(said, calls, whole=whole)
            if filled is None:
                return None
            holes += filled
        return Cut(self._spans(sorted(holes)), self.ids, sampled)

    def _filled(self, said: bytes, calls: CallIds, *, whole: bool) -> list[tuple[int, int, bytes]] | None:
        """The ids to put in; ``calls`` takes the fragments in unless this is None."""
        try:
            found = _SAID.decode(said).tool_calls or []
            choice = 0 if whole else _index(self.document.choices[0].index, 0)
            fragments = [
                Fragment(place if whole else _index(call.index, place), bytes(call.id) not in _NO_ID) for place, call in enumerate(found)
            ]
            lacking = calls.lacking(choice, fragments)
            gaps = self._gaps(said, lacking, whole=whole) if lacking else []
        except (msgspec.DecodeError, ValueError):
            return None
        if gaps is None:
            return None
        given = calls.begin(choice, fragments)
        return [
            (*span, b'%s"%s"%s' % (before, given[place].encode(), after))
            for place, (span, before, after) in zip(lacking, gaps, strict=True)
        ]

    def _gaps(self, said: bytes, lacking: list[int], *, whole: bool) -> list[_Gap] | None:
        """Where in ``slim`` the ids of the calls at these places belong; None where that is not plain to see."""
        outer, part = (b'"message":', "message") if whole else (b'"delta":', "delta")
        listed = bytes(_RAW_CALLS.decode(said).tool_calls)
        start = _sure_place(self.slim, outer, said, lambda text: getattr(_DECODER.decode(text).choices[0], part))
        inner = _sure_place(said, _TOOL_CALLS + b":", listed, lambda text: _RAW_CALLS.decode(text).tool_calls)
        if start is None or inner is None:
            return None
        at = start + inner
        gaps: list[_Gap] = []
        for place, raw in enumerate(_LIST.decode(listed)):
            call = bytes(raw)
            at = self.slim.index(call, at)
            if place in lacking:
                gap = _gap(call)
                if gap is None:
                    return None
                (begin, end), before, after = gap
                gaps.append(((begin + at, end + at), before, after))
            at += len(call)
        return gaps

    def _spans(self, holes: list[tuple[int, int, bytes]]) -> list[Span | bytes]:
        """What is left between the holes, in the reply's own places."""
        spans: list[Span | bytes] = []
        at, stop = self.bounds
        start = self.start
        if self.ids is None:
            turn, shift = len(self.slim), 0
        else:
            turn, shift = self.ids[0] - start, self.ids[1] - self.ids[0] - 1
        for begin, end, instead in holes:
            hole = begin + start + (shift if begin > turn else 0)
            if hole > at:
                spans.append((at, hole))
            if instead:
                spans.append(instead)
            at = end + start + (shift if end > turn else 0)
        if at < stop:
            spans.append((at, stop))
        return spans


def _look(data: bytes, bounds: Span, inner: Span, known_ids: bytes = b"") -> _Look | None:  # noqa: PLR0911
    """Look at the JSON in the inner part of the data."""
    start, stop = inner
    key = data.find(_KEY, start)
    ids: Span | None = None
    slim = data[start:stop]
    if key >= 0:
        begin = key + len(_KEY)
        if data[begin : begin + 1] == b" ":
            begin += 1
        if data[begin : begin + 1] == b"[":
            end = data.find(b"]", begin) + 1
            if end == 0:
                return None
            text = data[begin:end]
            if text[common_prefix(text, known_ids) :].translate(None, _ID_CHARACTERS):
                return None
            ids = begin, end
            slim = data[start:begin] + b"0" + data[end:stop]
            if slim.find(_NAME, begin - start) >= 0:
                return None
        elif data.find(_NAME, begin, stop) >= 0:
            return None  # the ids may stand behind a namesake that is none
    try:
        document = _DECODER.decode(slim)
        if not slim.isascii():
            slim.decode("utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if ids is not None and bytes(document.prompt_token_ids) != b"0":
        return None
    return _Look(document, slim, bounds, start, ids, key - start)


def _place(slim: bytes, key: bytes, value: bytes, passing: Span = (0, 0)) -> Span | None:
    """Where this key with this value stands; None if it is not there, or more than once.

    It is not looked for inside ``passing``, which is a value beside it, nor inside the value: nothing holds itself.
    """
    place: Span | None = None
    for start, stop in ((0, passing[0]), (passing[1], len(slim))):
        begin = slim.find(key, start, stop)
        while begin >= 0:
            at = begin + len(key)
            if slim[at : at + 1] == b" ":
                at += 1
            if slim.startswith(value, at):
                if place is not None:
                    return None
                at += len(value)
                place = begin, at
            begin = slim.find(key, at, stop)
    return place


def _gap(call: bytes) -> _Gap | None:
    """Where in a tool call without an id it belongs; None where that is not plain to see."""
    value = bytes(_TOOL_CALL.decode(call).id)
    if not value:
        return (1, 1), b'"id":', b"" if call[1:].lstrip().startswith(b"}") else b","
    begin = _sure_place(call, b'"id":', value, lambda text: _TOOL_CALL.decode(text).id)
    return None if begin is None else ((begin, begin + len(value)), b"", b"")


def _sure_place(text: bytes, key: bytes, value: bytes, read: Callable[[bytes], msgspec.Raw]) -> int | None:
    """Where the value of this key begins, if what is read there really is what stands there, and not the same words somewhere inside."""
    at = _place(text, key, value)
    if at is None:
        return None
    begin = at[1] - len(value)
    return begin if bytes(read(text[:begin] + b"0" + text[at[1] :])) == b"0" else None


def _index(raw: msgspec.Raw, otherwise: int) -> int:
    text = bytes(raw)
    return int(text) if text.removeprefix(b"-").isdigit() else otherwise


def _with_comma(slim: bytes, begin: int, end: int) -> Span | None:
    """A field with the comma that goes with it; None where it stands in an unusual way."""
    after = slim[end : end + 1]
    if after == b",":
        return begin, end + 1
    if after != b"}":
        return None
    before = begin
    while slim[before - 1 : before] == b" ":
        before -= 1
    if slim[before - 1 : before] == b",":
        return before - 1, end
    return (begin, end) if slim[before - 1 : before] == b"{" else None
