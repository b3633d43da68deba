"""From what was found out to a row: each value with a comment that says by what it is known, or that it is not."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pytest_harness.discovery.lab import LOGS, WORKDIR, Seen
from pytest_harness.discovery.logs import log_place
from pytest_harness.discovery.packages import Package
from pytest_harness.discovery.search import Found
from pytest_harness.seams.template import Draft, blank_draft

_WIDTH = 130


def draft_of(name: str, package: Package, *, command: str, line: str | None) -> Draft:
    """The row of a package that was not run: what is missing says so. ``line`` is the command line where the user knows it."""
    blank = blank_draft(name)
    adapter = name in harbor_adapters()
    install = [f"It says that it runs on {package.needs}."] if package.needs else []
    further = [each for each in package.commands if each != command]
    install += [f"Further commands of the package: {', '.join(further)}."] if further else []
    install += [f"Not found out: {each}." for each in package.missing]
    notes = {
        "": (
            "Not found out: dialect (chat, responses, messages or gemini) and streams. new-seam --discover runs it and looks.",
            *_page_note(package),
        ),
        "install": _wrapped(install),
        "agent": _wrapped(
            [
                *([] if line else ["Not found out: how it is told its task, and by which variables it finds its model."]),
                *([f'Harbor has an adapter of this name: harbor = "{name}" in place of command runs that.'] if adapter else []),
            ]
        ),
        "shell": ("Not found out: which of its tools runs a shell command. The scripted engine calls it.",),
    }
    return replace(
        blank,
        title=package.title,
        homepage=package.homepage or blank.homepage,
        install=package.install.model_copy(update={"commands": {command: package.install.commands[command]}}),
        command=_with_instruction(line or command),
        notes=notes,
    )


def draft_of_found(draft: Draft, found: Found) -> Draft:
    """The row of a harness that was run, over the one that was known before."""
    way, seen = found.way, found.seen
    channel = way.channels[0]
    calls = found.model_calls
    place = log_place(seen.logs, WORKDIR)
    notes = {
        "": _wrapped([_on_the_wire(found), *_others(found), *_page_notes(draft)]),
        "install": draft.notes.get("install", ()),
        "agent": _wrapped([*_on_the_agent(found), *[note for note in draft.notes.get("agent", ()) if note.startswith("Harbor")]]),
        "shell": _wrapped(_on_the_shell(found)),
        "finish": _wrapped([_on_the_end(found)]),
        "native": _wrapped([] if place else ["Not found: no file that it left behind holds the words of the task."]),
    }
    return replace(
        draft,
        dialect=found.dialect,
        streams=sum(call.streamed for call in calls) * 2 > len(calls),
        command=_with_instruction(way.line),
        env={**channel.env, **way.switches},
        files=channel.files,
        shell=found.shell,
        finish=found.finish,
        native=place,
        trajectory="atif" if f"{LOGS}/trajectory.json" in seen.logs else "none",
        notes=notes,
    )


def harbor_adapters() -> frozenset[str]:
    """The names of the adapters that Harbor has."""
    from harbor.models.agent.name import AgentName  # noqa: PLC0415 (Harbor takes a second to import)

    return frozenset(each.value for each in AgentName)


def _on_the_wire(found: Found) -> str:
    calls = found.model_calls
    streamed = sum(call.streamed for call in calls)
    how = "streamed" if streamed == len(calls) else "not streamed" if not streamed else f"{streamed} of them streamed"
    request = found.seen.moved[0]
    header = f"key in {request.key_header}" if request.key_header else "no key that it was given (so the proxy will refuse it)"
    side = found.side_calls
    beside = [f"{each.method} {each.path}" for each in found.seen.requests if not each.model_call]
    told = f"Seen: {_count(len(calls), 'model call')}, {how}, on {request.path}, {header}; {_count(side, 'side call')}"
    return told + (f"; beside them {', '.join(dict.fromkeys(beside))}." if beside else ".")


def _others(found: Found) -> Iterator[str]:
    for channel, seen in found.others:
        dialects = ", ".join(dict.fromkeys(request.dialect for request in seen.moved))
        yield f"Moved by {channel.name} too, alone: {dialects}{_by_key(seen)}. That can be a variant."
    if found.still:
        yield f"Not moved by {', '.join(found.still)} alone."


def _by_key(seen: Seen) -> str:
    request = seen.moved[0]
    return f", key of {request.key} in {request.key_header}" if request.key else ", without a key"


def _on_the_agent(found: Found) -> Iterator[str]:
    yield f"Seen: {found.way.channels[0].name} moves it to the proxy, found in {_count(found.tries, 'try', 'tries')}."
    if found.seen.hosts:
        yield f"It asked for {', '.join(found.seen.hosts)}, which a sandbox without a network has not: look for its switch."
    else:
        yield "It asked for no other host by name."


def _on_the_shell(found: Found) -> Iterator[str]:
    names = ", ".join(tool.name for tool in found.tools)
    if found.shell is None:
        yield f"Not found: none of its tools looks like a shell ({names or 'it offers none'}). The scripted engine needs one."
        return
    yield f"Chosen of its tools by name and schema: {names}."
    yield (
        "Seen: the scripted command ran, and its result came back."
        if found.complete
        else "Not seen to work: the result of the scripted command did not come back."
    )


def _on_the_end(found: Found) -> str:
    if found.seen.code is None:
        return f"Not found: it had to be ended after {found.seen.seconds:.0f} s."
    by = f"by {found.finish}, which its prompt names" if found.finish else "after a reply without a tool call"
    return f"Seen: it ended by itself {by}, with exit code {found.seen.code}."


def _page_note(package: Package) -> tuple[str, ...]:
    return () if package.homepage else ("Not found out: homepage.",)


def _page_notes(draft: Draft) -> Iterable[str]:
    return [note for note in draft.notes.get("", ()) if note.endswith("homepage.")]


def _with_instruction(line: str) -> str:
    return line if "{instruction}" in line else f"{line} {{instruction}}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _wrapped(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(textwrap.fill(note, _WIDTH, break_long_words=False, break_on_hyphens=False) for note in notes)
