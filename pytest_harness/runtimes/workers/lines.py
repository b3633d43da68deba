"""The program's side of ``runtimes/worker.py``: JSON lines over what were its standard streams. Only the standard library is used.

Whatever the program or a library prints goes to its standard error.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

Handler = Callable[["Asker", dict[str, Any]], Any]


class Asker:
    """The suite, as the program sees it."""

    def __init__(self) -> None:
        self._in = os.fdopen(os.dup(0), "r", encoding="utf-8")
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        with open(os.devnull) as nothing:  # noqa: PTH123 - a file descriptor is wanted
            os.dup2(nothing.fileno(), 0)

    def ask(self, what: str, **fields: Any) -> Any:
        """The suite's answer; raises what its script raises."""
        self._write({"ask": what, **fields})
        line = self._in.readline()
        if not line:
            sys.exit(0)
        reply = json.loads(line)
        if "raise" in reply:
            kind = getattr(builtins, reply["raise"], RuntimeError)
            raise kind(reply["text"])
        return reply["value"]

    def serve(self, handlers: dict[str, Handler]) -> None:
        """Answer requests, each by the handler that its ``do`` names, until there are no more."""
        self._write({"ready": True})
        for line in self._in:
            request = json.loads(line)
            try:
                self._write({"answer": handlers[request["do"]](self, request)})
            except Exception:  # noqa: BLE001 - told to the suite
                self._write({"error": traceback.format_exc()})

    def _write(self, document: dict[str, Any]) -> None:
        self._out.write(json.dumps(document) + "\n")
        self._out.flush()
