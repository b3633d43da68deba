"""Everything that the page shows of one attempt: its calls in their four forms, tokens, graph, trajectory, files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pytest_harness.contract.linked import graph_of
from pytest_harness.evidence.model import Call, Evidence, Message
from pytest_harness.evidence.secrets import REDACTED, SECRET_HEADERS
from pytest_harness.graph import is_model_call
from pytest_harness.reports.html.pieces import Pieces
from pytest_harness.reports.html.tokens import graph_data, prompt_data, samples_data
from pytest_harness.reports.html.trajectory import trajectory_data

FORMS = ("received", "forwarded", "replied", "delivered")
MOST_CALLS = 2000
MOST_FILES = 500

Json = dict[str, Any]


def attempt_data(evidence: Evidence) -> Json:
    """The document of one attempt. What cannot be worked out of damaged evidence is a sentence in its place, never a page that breaks."""
    pieces = Pieces()
    manifest = evidence.manifest
    calls = [_call(evidence, call, pieces) for call in evidence.calls[:MOST_CALLS]]
    files = sorted({*evidence.files, *evidence.others})
    return {
        "model": manifest.model,
        "network": manifest.network,
        "purpose": manifest.purpose,
        "ending": manifest.ending.model_dump(mode="json"),
        "calls": calls,
        "calls_left_out": max(0, len(evidence.calls) - MOST_CALLS),
        "turns": _guarded(lambda: graph_data(evidence)),
        "trajectory": _guarded(lambda: trajectory_data(evidence)),
        "files": files[:MOST_FILES],
        "files_left_out": max(0, len(files) - MOST_FILES),
        "pieces": pieces.table,
    }


def _guarded(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - evidence may be damaged in any way, and the rest of the page says how
        return {"error": f"{type(error).__name__}: {error}"}


def _call(evidence: Evidence, call: Call, pieces: Pieces) -> Json:
    return {
        "index": call.index,
        "id": call.id,
        "dialect": call.dialect,
        "method": call.method,
        "path": call.path,
        "streamed": call.streamed,
        "model_call": is_model_call(call),
        "outcome": call.outcome,
        "error": call.error,
        "delivery": call.delivery,
        "times": call.times.model_dump(mode="json"),
        "constraints": call.constraints,
        "notes": call.notes,
        "forms": {form: _message(getattr(call, form), pieces) for form in FORMS},
        "samples": samples_data(call),
        "prompt": _guarded(lambda: prompt_data(call, graph_of(evidence).by_call.get(call.index), graph_of(evidence))),
    }


def _message(message: Message | None, pieces: Pieces) -> Json | None:
    if message is None:
        return None
    body, left_out = pieces.add(message.body)
    return {
        "status": message.status,
        "headers": dict(_headers(message)),
        "body": body,
        "length": len(message.body),
        "left_out": left_out,
    }


def _headers(message: Message) -> Iterator[tuple[str, str]]:
    """Evidence that another program wrote may hold what our own recorder leaves out."""
    for name, value in message.headers.items():
        yield name, REDACTED if name.lower() in SECRET_HEADERS else value
