"""The journal: one append-only file a session, so that a crash loses nothing that was delivered.

A *call* frame holds a whole call and is written before the last byte of its reply leaves; a *delivery* frame says afterwards whether the
harness took it. Frames are in the order in which calls ended; a call's ``index`` is its order of arrival. A frame is its length and its
CRC-32 (both little-endian, 4 bytes) and a MessagePack payload. What a call shares with the one before it, and its four messages with each
other, is written once (``recipes``); ids are not parsed before somebody reads the journal. Exact bytes, less secrets, can be had back.
"""

from __future__ import annotations

import asyncio
import os
import struct
import threading
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from pytest_harness.capture.dialects.chat_reply import read_ids
from pytest_harness.capture.files import FILES
from pytest_harness.capture.recipes import Recipe, cook, difference
from pytest_harness.evidence import Call, Dialect, Message, Outcome, Times
from pytest_harness.evidence.model import Delivery

MAGIC = b"harness-conformance journal 1\n"

_HEAD = struct.Struct("<II")
_LONGEST_FRAME = 1 << 31


class JournalError(Exception):
    """A journal that cannot be written or read; the message names the file, what is wrong and what to do."""


class Written(msgspec.Struct):
    """One message to be written down. ``recipe`` makes its body out of another message's; None where it has a body of its own."""

    headers: Mapping[str, str]
    body: bytes = b""
    status: int | None = None
    recipe: Recipe | None = None


class Moments(NamedTuple):
    """The times of a call as ``evidence.Times`` has them, but for its delivery, which has a frame of its own."""

    received: float
    forwarded: float | None = None
    first_byte: float | None = None
    replied: float | None = None


class CallRecord(msgspec.Struct, kw_only=True):
    """A call to be written down, without secrets. ``forwarded`` may be made of ``received``, ``delivered`` of ``replied``."""

    index: int
    id: str
    dialect: Dialect
    method: str
    path: str
    streamed: bool
    received: Written
    forwarded: Written | None = None
    replied: Written | None = None
    delivered: Written | None = None
    read_as: str | None = None
    """How the engine's reply is to be read for ids: ``whole``, ``stream``, or not at all."""
    ids: tuple[int, int] | None = None
    """Where the prompt's ids stand in the engine's reply."""
    outcome: Outcome
    error: str | None = None
    times: Moments
    more: dict[str, Any] = {}
    """Further fields of the evidence's call."""


class _Message(msgspec.Struct, array_like=True):
    headers: list[str] | dict[int, str]
    """Names and values in turn; or, where the names are those of the last call, the values that differ by position."""
    status: int | None
    body: list[int | bytes]


class _CallFrame(msgspec.Struct, array_like=True, tag=1):
    index: int
    id: str
    dialect: Dialect
    method: str
    path: str
    streamed: bool
    outcome: Outcome
    error: str | None
    read_as: str | None
    ids: tuple[int, int] | None
    times: Moments
    of_received: bool
    """Whether the forwarded body is made of the received one, or of the last forwarded one."""
    received: _Message
    forwarded: _Message | None
    replied: _Message | None
    delivered: _Message | None
    more: dict[str, Any]


class _DeliveryFrame(msgspec.Struct, array_like=True, tag=2):
    index: int
    delivery: Delivery
    at: float


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_CallFrame | _DeliveryFrame)


class _Last(msgspec.Struct):
    """What of the last call the next one is told by; it is all that a live session keeps."""

    received: bytes = b""
    forwarded: bytes = b""
    ids: bytes = b""
    headers: dict[str, dict[str, str]] = {}


class Journal:
    """An open journal. Each frame is one write: a reader sees whole frames, and at most the last one torn.

    With ``durable``, ``synced`` brings what was written to the disk, so that a call outlives the machine and not only the process.
    """

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        """Create the file, for its owner only. Raises JournalError if it exists or cannot be made."""
        self.path = path
        self.durable = durable
        self._last = _Last()
        self._lock = threading.Lock()
        self._closed = False
        self._size = len(MAGIC)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, MAGIC)
            finally:
                os.close(descriptor)
        except FileExistsError:
            raise JournalError(
                f"{path} exists already, and a journal belongs to one session; give each session a path of its own"
            ) from None
        except OSError as error:
            raise JournalError(f"{path} cannot be created ({error.strerror}); make the folder and see that it is writable") from None

    @property
    def last_ids(self) -> bytes:
        """The text of the last call's prompt ids: those of the next probably begin so."""
        return self._last.ids

    def write_call(self, record: CallRecord) -> None:
        """Append a call. Raises JournalError; then nothing of it stands in the file."""
        with self._lock:
            last = self._last
            next_last = _Last(received=record.received.body, headers=dict(last.headers))
            received = self._message(record.received, "received", next_last, difference(record.received.body, last.received))
            forwarded, of_received = None, True
            if record.forwarded is not None:
                recipe = record.forwarded.recipe
                if recipe is None:
                    of_received = False
                    next_last.forwarded = record.forwarded.body
                    recipe = difference(record.forwarded.body, last.forwarded)
                forwarded = self._message(record.forwarded, "forwarded", next_last, recipe)
            replied = None
            next_last.ids = last.ids
            if record.replied is not None:
                body = record.replied.body
                recipe = [body] if body else []
                if record.ids is not None:
                    start, stop = record.ids
                    next_last.ids = body[start:stop]
                    recipe = [body[:start], *difference(next_last.ids, last.ids), body[stop:]]
                replied = self._message(record.replied, "replied", next_last, recipe)
            delivered = None
            if record.delivered is not None:
                recipe = [record.delivered.body] if record.delivered.recipe is None else record.delivered.recipe
                delivered = self._message(record.delivered, "delivered", next_last, recipe)
            frame = _CallFrame(
                record.index,
                record.id,
                record.dialect,
                record.method,
                record.path,
                record.streamed,
                record.outcome,
                record.error,
                record.read_as,
                record.ids,
                record.times,
                of_received,
                received,
                forwarded,
                replied,
                delivered,
                record.more,
            )
            self._append(_ENCODER.encode(frame))
            self._last = next_last

    def write_delivery(self, index: int, delivery: Delivery, at: float) -> None:
        """Append what became of a call's reply; ``at`` is in Unix seconds. Raises JournalError."""
        with self._lock:
            self._append(_ENCODER.encode(_DeliveryFrame(index, delivery, at)))

    async def synced(self) -> None:
        """Wait until all that is written is on the disk. Raises JournalError."""
        try:
            await asyncio.get_running_loop().run_in_executor(_SYNCING, _sync, self.path)
        except OSError as error:
            raise JournalError(f"{self.path} cannot be brought to the disk ({error.strerror}); see that the disk is well") from None

    def close(self) -> None:
        """Bring everything to the disk and keep nothing. Closing twice is harmless."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._last = _Last()
                FILES.release(self.path)
                if self.path.exists():
                    _sync(self.path)

    def _message(self, message: Written, role: str, last: _Last, body: Recipe) -> _Message:
        headers = message.headers if isinstance(message.headers, dict) else dict(message.headers)
        before = last.headers.get(role)
        last.headers[role] = headers
        if before is headers:
            told: list[str] | dict[int, str] = {}
        elif before is not None and list(before) == list(headers):
            told = {place: value for place, (name, value) in enumerate(headers.items()) if before[name] != value}
        else:
            told = [text for item in headers.items() for text in item]
        return _Message(told, message.status, body)

    def _append(self, payload: bytes) -> None:
        if self._closed:
            raise JournalError(f"{self.path} is closed, so a call of its session cannot be recorded any more")
        data = _HEAD.pack(len(payload), zlib.crc32(payload)) + payload
        try:
            FILES.append(self.path, data)
        except OSError as error:
            self._take_back()
            raise JournalError(f"{self.path} cannot be written ({error.strerror}); see that the disk has room") from None
        self._size += len(data)

    def _take_back(self) -> None:
        """Half a frame must not stand before the next one; where it cannot be removed, there is no next one."""
        try:
            FILES.release(self.path)
            os.truncate(self.path, self._size)
        except OSError:
            self._closed = True


def read_journal(path: Path) -> tuple[Call, ...]:
    """The calls of a journal in order of arrival; it may still be growing, also under the hands of another process.

    A torn end is dropped: its reply was never delivered. Raises JournalError for anything else that cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise JournalError(f"{path} cannot be read ({error.strerror}); name the journal of a session") from None
    if not data.startswith(MAGIC):
        if MAGIC.startswith(data):
            return ()
        raise JournalError(f"{path} is not a journal of this version; use the harness-conformance that wrote it")
    reader = _Reader()
    at = len(MAGIC)
    while at + _HEAD.size <= len(data):
        size, checksum = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + size
        if end > len(data):
            break
        payload = data[at + _HEAD.size : end]
        where = f"{path}, byte {at}"
        if zlib.crc32(payload) != checksum or size == 0:
            if not data[end:].strip(b"\0"):
                break  # the machine stopped while this was on its way to the disk
            raise JournalError(f"{where} is damaged: its checksum is wrong; the file was changed after it was written")
        try:
            reader.take(payload)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise JournalError(f"{where}: {key}: {first['msg']}; it comes from another harness-conformance") from None
        except (msgspec.MsgspecError, ValueError, KeyError, IndexError) as error:
            raise JournalError(f"{where} is not a journal frame ({error}); it comes from another harness-conformance") from None
        at = end
    return tuple(reader.calls[index] for index in sorted(reader.calls))


class _Reader:
    """Takes frames in order and makes calls of them."""

    def __init__(self) -> None:
        self.calls: dict[int, Call] = {}
        self._last = _Last()

    def take(self, payload: bytes) -> None:
        frame = _DECODER.decode(payload)
        if isinstance(frame, _DeliveryFrame):
            call = self.calls[frame.index]
            fields: dict[str, Any] = {"delivery": frame.delivery}
            if frame.delivery == "delivered":
                fields["times"] = call.times.model_copy(update={"delivered": frame.at})
            self.calls[frame.index] = call.model_copy(update=fields)
            return
        self.calls[frame.index] = self._call(frame)

    def _call(self, frame: _CallFrame) -> Call:
        last = self._last
        received = cook(frame.received.body, last.received)
        forwarded = b""
        if frame.forwarded is not None:
            forwarded = cook(frame.forwarded.body, received if frame.of_received else last.forwarded)
        replied = b"" if frame.replied is None else cook(frame.replied.body, last.ids)
        delivered = b"" if frame.delivered is None else cook(frame.delivered.body, replied)
        prompt_ids, samples = read_ids(replied, streamed=frame.read_as == "stream") if frame.read_as is not None else (None, ())
        call = Call(
            index=frame.index,
            id=frame.id,
            dialect=frame.dialect,
            method=frame.method,
            path=frame.path,
            streamed=frame.streamed,
            received=self._message("received", frame.received, received),
            forwarded=None if frame.forwarded is None else self._message("forwarded", frame.forwarded, forwarded),
            replied=None if frame.replied is None else self._message("replied", frame.replied, replied),
            delivered=None if frame.delivered is None else self._message("delivered", frame.delivered, delivered),
            prompt_ids=prompt_ids,
            samples=samples,
            outcome=frame.outcome,
            error=frame.error,
            times=Times(**frame.times._asdict()),
            **frame.more,
        )
        self._last = _Last(
            received=received,
            forwarded=b"" if frame.of_received else forwarded,
            ids=last.ids if frame.ids is None else replied[frame.ids[0] : frame.ids[1]],
            headers=last.headers,
        )
        return _writable(call)

    def _message(self, role: str, message: _Message, body: bytes) -> Message:
        told = message.headers
        if isinstance(told, list):
            headers = dict(zip(told[::2], told[1::2], strict=True))
        else:
            headers = dict(self._last.headers[role])
            names = list(headers)
            for place, value in told.items():
                headers[names[place]] = value
        self._last.headers[role] = headers
        return Message(headers=headers, body=body.decode("utf-8", "backslashreplace"), status=message.status)


def _writable(call: Call) -> Call:
    """What an engine may put where ids belong can be unwritable (lone surrogates, endless nesting). The body still shows it."""
    values = [call.prompt_ids or (), *(part or () for sample in call.samples for part in (sample.token_ids, sample.logprobs))]
    if all(type(value) in (int, float) for part in values for value in part):
        return call
    try:
        call.model_dump_json()
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        text = f"ids and logprobs of the reply could not be recorded ({type(error).__name__}); its body shows them"
        return call.model_copy(update={"prompt_ids": None, "samples": (), "error": call.error or text})
    return call


_SYNCING = ThreadPoolExecutor(1, "journal")
"""One thread brings journals to the disk: while it waits for one, the loop goes on, and the next in line are done together."""


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
