"""A trajectory and everything it refers to: embedded subagents, those in files of their own, and the files that continue it.

Nothing here raises on a bad document: what has the wrong kind reads as missing, and ``shape`` and the checks say so.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

PATH = "trial/agent/trajectory.json"
AGENT_FOLDER = "/logs/agent/"
"""What the folder of the trajectory is called inside the sandbox."""
VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
NO_MODEL = "<synthetic>"
"""What Claude Code calls the model of a message that it wrote by itself, e.g. of an API error."""

DEPTH = 100
"""How many subagents may stand inside each other: no agent goes so deep, and a walk would not come back from much more."""

Json = dict[str, Any]
Role = Literal["root", "continuation", "subagent"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it must be, and where."""

    where: str
    expected: str
    seen: str


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One ATIF document, equal to none but itself. ``place`` is where it stands in its file, empty for the whole of it."""

    path: str
    place: str
    raw: Json
    role: Role

    def at(self, place: str) -> str:
        """Where something in this document stands, e.g. ``trial/agent/trajectory.json steps[2].metrics``."""
        return f"{self.path} {self.place}{'.' if self.place and place else ''}{place}".rstrip()

    @property
    def version(self) -> int | None:
        """The minor number of the declared version, None where it is missing or unknown."""
        declared = self.raw.get("schema_version")
        return VERSIONS.index(declared) if declared in VERSIONS else None

    @property
    def steps(self) -> tuple[Step, ...]:
        """What can be read as a step; ``shape`` finds the rest."""
        steps = self.raw.get("steps")
        entries = enumerate(steps if isinstance(steps, list) else ())
        return tuple(Step(self, position, step) for position, step in entries if isinstance(step, dict))

    @property
    def totals(self) -> Json:
        """``final_metrics``, empty where there are none."""
        return _object(self.raw.get("final_metrics"))

    @property
    def embedded(self) -> tuple[Json, ...]:
        """The subagents that stand inside this document."""
        return tuple(_objects(self.raw.get("subagent_trajectories")))


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step, with its place in its document."""

    document: Document
    position: int
    raw: Json

    def at(self, place: str = "") -> str:
        """Where something in this step stands."""
        return self.document.at(f"steps[{self.position}]{'.' if place else ''}{place}")

    @property
    def of_agent(self) -> bool:
        """Whether the agent took it here: a copied step belongs to another trajectory."""
        return self.raw.get("source") == "agent" and not self.copied

    @property
    def copied(self) -> bool:
        """Whether it was copied from another trajectory for context."""
        return bool(self.raw.get("is_copied_context"))

    @property
    def calls_model(self) -> bool:
        """Whether it stands for calls of the model: no dispatch without one, no message that the harness wrote by itself."""
        return self.of_agent and self.count != 0 and self.raw.get("model_name") != NO_MODEL

    @property
    def count(self) -> int | None:
        """How many model calls it says it is; None where it does not say."""
        return whole(self.raw.get("llm_call_count"))

    @property
    def calls(self) -> list[Json]:
        """Its tool calls."""
        return _objects(self.raw.get("tool_calls"))

    @property
    def results(self) -> list[Json]:
        """The results of its observation."""
        return _objects(_object(self.raw.get("observation")).get("results"))

    @property
    def metrics(self) -> Json:
        """Its metrics, empty where there are none."""
        return _object(self.raw.get("metrics"))

    @property
    def text(self) -> str:
        """Its message as text; images and sounds are left out."""
        return text_of(self.raw.get("message"))

    @property
    def names(self) -> frozenset[str]:
        """Every text in its ``extra``, one level deep, among which a converter may have kept the id of the reply."""
        extra = _object(self.raw.get("extra"))
        inside = [value for values in extra.values() if isinstance(values, dict) for value in values.values()]
        return frozenset(value for value in (*extra.values(), *inside) if isinstance(value, str))


@dataclass(frozen=True)
class Trace:
    """All documents of one trajectory, the root first, and the references that lead nowhere."""

    documents: tuple[Document, ...]
    dangling: tuple[Problem, ...]
    orphans: tuple[Document, ...]
    """Embedded subagents that no step refers to."""

    @property
    def root(self) -> Document:
        """The document that Harbor calls the trajectory."""
        return self.documents[0]

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, document after document."""
        return tuple(step for document in self.documents for step in document.steps)


def read_trace(files: Mapping[str, str], path: str = PATH, *, others: Collection[str] = ()) -> Trace | None:
    """The trajectory in this file and all that it refers to; None if there is no JSON object.

    ``files`` maps paths to texts; ``others`` are the paths of further files, e.g. images, that are there.
    """
    raw = _document(files.get(path))
    return None if raw is None else _Reader(files, others).read(path, raw)


def whole(value: Any) -> int | None:
    """The value if it is a whole number, which True is not."""
    return value if type(value) is int else None


def text_of(content: Any) -> str:
    """The text of a message or of the content of a result."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in _objects(content) if isinstance(part.get("text"), str))


class _Reader:
    """Follows references, each file once, so that a circle ends."""

    def __init__(self, files: Mapping[str, str], others: Collection[str]) -> None:
        self.files = files
        self.others = others
        self.documents: list[Document] = []
        self.dangling: list[Problem] = []
        self.orphans: list[Document] = []

    def read(self, path: str, raw: Json) -> Trace:
        self._add(Document(path, "", raw, "root"), 0)
        return Trace(tuple(self.documents), tuple(self.dangling), tuple(self.orphans))

    def _add(self, document: Document, depth: int) -> None:
        """The document with its subagents, and after them what continues it."""
        if depth > DEPTH:
            self.dangling.append(Problem(document.path, f"at most {DEPTH} subagents inside each other", "more, which were not read"))
            return
        following: Document | None = document
        while following is not None:
            self._one(following, depth)
            following = self._continuation(following)

    def _one(self, document: Document, depth: int) -> None:
        self.documents.append(document)
        self._media(document)
        children = [
            Document(document.path, f"{document.place}{'.' if document.place else ''}subagent_trajectories[{number}]", raw, "subagent")
            for number, raw in enumerate(document.embedded)
        ]
        referred = self._references(document, children, depth)
        self._ids(children)
        self.orphans += [child for child in children if child.raw.get("trajectory_id") not in referred]
        for child in children:
            self._add(child, depth + 1)

    def _continuation(self, document: Document) -> Document | None:
        reference = document.raw.get("continued_trajectory_ref")
        if not isinstance(reference, str):
            return None
        role: Role = "subagent" if document.role == "subagent" else "continuation"
        return self._file(document, reference, document.at("continued_trajectory_ref"), role)

    def _references(self, document: Document, children: list[Document], depth: int) -> list[Any]:
        """Follow the references of all steps; returns the ids that they name."""
        ids = [child.raw.get("trajectory_id") for child in children]
        named = []
        for step in document.steps:
            for number, result in enumerate(step.results):
                for position, reference in enumerate(_objects(result.get("subagent_trajectory_ref"))):
                    where = step.at(f"observation.results[{number}].subagent_trajectory_ref[{position}]")
                    name, file = reference.get("trajectory_id"), reference.get("trajectory_path")
                    named.append(name)
                    if isinstance(file, str) and name not in ids:
                        told = self._file(document, file, f"{where}.trajectory_path", "subagent")
                        if told is not None:
                            self._add(told, depth + 1)
                    elif name not in ids:
                        self.dangling.append(Problem(f"{where}.trajectory_id", "an embedded subagent with this id", repr(name)))
        return named

    def _ids(self, children: list[Document]) -> None:
        """Embedded subagents are found by their ids alone."""
        seen = set()
        for child in children:
            name = child.raw.get("trajectory_id")
            if not isinstance(name, str) or not name or name in seen:
                self.dangling.append(Problem(child.at("trajectory_id"), "an id that no other embedded subagent has", repr(name)))
            seen.add(name if isinstance(name, str) else None)

    def _file(self, document: Document, reference: str, where: str, role: Role) -> Document | None:
        """The document in the file, where it is one that was not read yet."""
        if "://" in reference:
            return None  # elsewhere: nobody can look
        path = next((path for path in _places(reference, document.path) if path in self.files), None)
        raw = _document(self.files.get(path or ""))
        if path is None or raw is None:
            self.dangling.append(Problem(where, "a file with a trajectory", f"{reference}, which is {'none' if path else 'not there'}"))
        elif path in (document.path, self.documents[0].path) or (
            role == "continuation" and any(known.path == path for known in self.documents)
        ):
            self.dangling.append(Problem(where, "another file", f"{reference}, which is itself a part of what refers to it"))
        elif all(known.path != path for known in self.documents):
            return Document(path, "", raw, role)
        return None

    def _media(self, document: Document) -> None:
        for step in document.steps:
            contents = [("message", step.raw.get("message"))]
            contents += [(f"observation.results[{number}].content", result.get("content")) for number, result in enumerate(step.results)]
            for place, content in contents:
                for number, part in enumerate(_objects(content)):
                    path = _object(part.get("source")).get("path")
                    if isinstance(path, str) and "://" not in path and not self._there(path, document.path):
                        where = step.at(f"{place}[{number}].source.path")
                        self.dangling.append(Problem(where, "a file that is there", path))

    def _there(self, reference: str, beside: str) -> bool:
        return any(path in self.files or path in self.others for path in _places(reference, beside))


def _places(reference: str, beside: str) -> Iterator[str]:
    """Where a file may lie that a document refers to: beside the document, whatever the folder was called where it was written."""
    folder = posixpath.dirname(beside)
    if reference.startswith(AGENT_FOLDER):
        yield posixpath.normpath(posixpath.join(folder, reference.removeprefix(AGENT_FOLDER)))
    if reference.startswith("/"):
        yield posixpath.join(folder, posixpath.basename(reference))
    else:
        yield posixpath.normpath(posixpath.join(folder, reference))


def _document(text: str | None) -> Json | None:
    if text is None:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
