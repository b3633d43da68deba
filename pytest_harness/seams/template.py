"""The text of a new seam row: what is known of a harness as TOML, each part with comments that say where it comes from or what is missing.

It loads as it stands, once the harness is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_harness.evidence.model import Dialect, TrajectoryFormat
from pytest_harness.seams.rows import Install, PreinstalledInstall, SeamError, Shell

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Draft:
    """A row to be written. ``notes`` are comments, by the table that they stand above; those of the row itself under ``""``."""

    name: str
    title: str
    homepage: str
    install: Install
    command: str
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    dialect: Dialect = "chat"
    streams: bool = False
    shell: Shell | None = None
    finish: str | None = None
    native: str | None = None
    trajectory: TrajectoryFormat = "none"
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def checked_name(name: str) -> str:
    """The name, if a row can have it. Raises SeamError."""
    if not _NAME.fullmatch(name):
        raise SeamError(f"{name!r} cannot be the name of a seam: lower-case letters, digits and single hyphens are expected")
    return name


def blank_draft(name: str) -> Draft:
    """A row to be filled in, for a harness that is on this machine already."""
    return Draft(
        name=checked_name(name),
        title=name,
        homepage=f"https://example.org/{name}",
        install=PreinstalledInstall(
            kind="preinstalled", path=f"../{name}", commands={name: f"bin/{name}"}, version_command=f"{name} --version"
        ),
        command=f"{name} {{instruction}}",
        env={"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "{key}", "OPENAI_MODEL": "{model}"},
        shell=Shell(tool="bash", argument="command"),
        notes={
            "": (
                "dialect is the wire it speaks: chat, responses, messages or gemini; streams, whether it asks for streamed replies.",
                'trajectory is "atif" if it leaves an ATIF document at /logs/agent/trajectory.json.',
            ),
            "install": (
                'kind may be "pypi" or "npm" too: see the bundled rows. path is its folder, relative to this file; the sandbox sees it',
                "read-only at its own place. commands: the command in the sandbox -> an executable file below path.",
            ),
            "agent": ("{instruction} is the task, quoted for the shell.",),
            "shell": ("Which of its tools runs a shell command. The scripted engine calls it.",),
        },
    )


def row_text(draft: Draft) -> str:
    """The row as TOML."""
    return "".join(f"{line}\n" for line in _lines(draft))


def _lines(draft: Draft) -> Iterator[str]:
    yield "# One row: everything that is particular to one harness. Run it with"
    yield f"#   pytest --harness={draft.name} --seams=FOLDER_OF_THIS_FILE"
    yield from _comments(draft, "")
    yield from _pairs({"name": draft.name, "title": draft.title, "homepage": draft.homepage, "dialect": draft.dialect})
    yield from _pairs({"streams": draft.streams, "trajectory": draft.trajectory})
    yield from _table(draft, "install", draft.install.model_dump(exclude_defaults=True))
    yield from _table(draft, "agent", {"command": draft.command, "timeout_sec": 120})
    yield from _table(draft, "agent.env", draft.env)
    yield from _table(draft, "agent.files", draft.files)
    if draft.shell is not None:
        yield from _table(draft, "shell", draft.shell.model_dump(exclude_defaults=True) | {"argument": draft.shell.argument})
    else:
        yield from _missing(draft, "shell", ("tool", "bash"), ("argument", "command"))
    if draft.finish is not None:
        yield from _table(draft, "finish", {"command": draft.finish})
    else:
        yield from _missing(draft, "finish", ("command", "echo DONE"))
    if draft.native is not None:
        yield from _table(draft, "native", {"log": draft.native})
    else:
        yield from _missing(draft, "native", ("log", f"~/.{draft.name}/sessions"))


_LEFT_OUT = {
    "shell": "Which of its tools runs a shell command; left out where it offers none.",
    "finish": "How it learns that the task is done. A reply without a tool call is enough where this is left out.",
    "native": "Its own session log in the sandbox, copied into the evidence.",
}


def _missing(draft: Draft, name: str, *pairs: tuple[str, str]) -> Iterator[str]:
    """A table that is not there, as comments that show what it would look like."""
    yield ""
    yield f"# {_LEFT_OUT[name]}"
    yield from _comments(draft, name)
    yield f"# [{name}]"
    yield from (f"# {line}" for line in _pairs(dict(pairs)))


def _table(draft: Draft, name: str, values: Mapping[str, Any]) -> Iterator[str]:
    if values:
        yield ""
        yield from _comments(draft, name)
        yield f"[{name}]"
        yield from _pairs(values)


def _comments(draft: Draft, name: str) -> Iterator[str]:
    lines = (line for note in draft.notes.get(name, ()) for line in note.splitlines())
    return (f"# {''.join(letter if letter.isprintable() else ' ' for letter in line)}" for line in lines)


def _pairs(values: Mapping[str, Any]) -> Iterable[str]:
    return (f"{_key(name)} = {_value(value)}" for name, value in values.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        plain = value.isprintable() or ("\n" in value and value.replace("\n", "").isprintable())
        if "\n" in value and plain and "'''" not in value:
            return f"'''\n{value}'''"
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_pairs(value))} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
