"""The journal: one append-only NDJSON file a session, so that a crash loses nothing that was delivered.

A ``call`` line holds a whole call and is written before the last byte of its reply leaves; a ``delivery`` line says
afterwards whether the harness took it. Lines are in the order in which calls ended; a call's ``index`` is its order of arrival.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from pytest_harness.evidence import Call
from pytest_harness.evidence.model import Delivery


class JournalError(Exception):
    """A journal that cannot be written or read; the message names the file, what is wrong and what to do."""


class Journal:
    """An open journal. Each line is one write: a reader sees whole lines, and at most the last one torn."""

    def __init__(self, path: Path) -> None:
        """Create the file, for its owner only. Raises JournalError if it exists or cannot be made."""
        self.path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise JournalError(
                f"{path} exists already, and a journal belongs to one session; give each session a path of its own"
            ) from None
        except OSError as error:
            raise JournalError(f"{path} cannot be created ({error.strerror}); make the folder and see that it is writable") from None

    def write_call(self, call: Call) -> None:
        """Append a call. Its ``delivery`` is not written: that is known only later."""
        self._append('{"record":"call",' + _line(call)[1:])

    def write_delivery(self, call_id: str, delivery: Delivery, at: float) -> None:
        """Append what became of a call's reply; ``at`` is in Unix seconds."""
        self._append(json.dumps({"record": "delivery", "id": call_id, "delivery": delivery, "at": at}, separators=(",", ":")))

    def close(self) -> None:
        """Bring everything to the disk. Closing twice is harmless."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def _append(self, line: str) -> None:
        data = line.encode("utf-8") + b"\n"
        if self._file < 0:
            raise JournalError(f"{self.path} is closed, so a call of its session cannot be recorded any more")
        before = os.fstat(self._file).st_size
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._take_back(before)
            raise JournalError(f"{self.path} cannot be written ({error.strerror}); see that the disk has room") from None

    def _take_back(self, length: int) -> None:
        """Half a line must not stand before the next one; where it cannot be removed, there is no next one."""
        try:
            os.ftruncate(self._file, length)
        except OSError:
            os.close(self._file)
            self._file = -1


def read_journal(path: Path) -> tuple[Call, ...]:
    """The calls of a journal in order of arrival; it may still be growing.

    A torn last line is dropped: its reply was never delivered. Raises JournalError for any other line that cannot be read.
    """
    try:
        *lines, _torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise JournalError(f"{path} cannot be read ({error.strerror}); name the journal of a session") from None
    calls: dict[str, Call] = {}
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        try:
            document: Any = json.loads(line)
            kind = document.pop("record")
            if kind == "call":
                call = Call.model_validate(document)
                calls[call.id] = call
            elif kind == "delivery":
                calls[document["id"]] = _with_delivery(calls[document["id"]], document["delivery"], document["at"])
            else:
                raise JournalError(f"{where}: record {kind!r} is unknown; use a newer harness-conformance")
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise JournalError(f"{where}: {key}: {first['msg']}; the line was changed after it was written") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise JournalError(f"{where} is not a journal record ({error}); the file was damaged after it was written") from None
    return tuple(sorted(calls.values(), key=lambda call: call.index))


def _with_delivery(call: Call, delivery: Delivery, at: float) -> Call:
    fields = call.model_dump() | {"delivery": delivery}
    if delivery == "delivered":
        fields["times"] |= {"delivered": at}
    return Call.model_validate(fields)


def _line(call: Call) -> str:
    try:
        return call.model_dump_json(exclude={"delivery"})
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        # What an engine may put where ids belong can be unwritable (lone surrogates, endless nesting). The body still shows it.
        error_text = f"ids and logprobs of the reply could not be recorded ({type(error).__name__}); its body shows them"
        fields = {"prompt_ids": None, "samples": (), "error": call.error or error_text}
        return call.model_copy(update=fields).model_dump_json(exclude={"delivery"})
