"""``harness-conformance push``: a plan of what goes where, and then, unless it is only tried, the sending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress
from rich.table import Table

from pytest_harness.pushing import PushError, State
from pytest_harness.pushing.records import Item, gather
from pytest_harness.pushing.scan import check
from pytest_harness.pushing.stores import open_store

NAMED = 3


@dataclass(frozen=True)
class Plan:
    """What is sent, and what is not because it is there."""

    states: Mapping[str, State]
    items: tuple[Item, ...]

    def of(self, *states: State) -> list[Item]:
        """The files that stand so at the target."""
        return [item for item in self.items if self.states[item.name] in states]

    def table(self) -> Table:
        """A row for each attempt and report."""
        rows = Table("record", "files", "size", "to send", "there", "differs", box=None, pad_edge=False)
        for record in dict.fromkeys(item.record for item in self.items):
            files = [item for item in self.items if item.record == record]
            counts = [sum(self.states[item.name] == state for item in files) for state in ("new", "same", "other")]
            rows.add_row(record, str(len(files)), _size(files), *map(str, counts))
        return rows


def push(folders: Sequence[Path], url: str, console: Console, *, dry_run: bool, replace: bool, packed: bool) -> None:
    """Look through the folders, say what goes where, and send it. Raises PushError, EvidenceError."""
    from pytest_harness.pushing.anywhere import is_below  # noqa: PLC0415 (an extra)

    if not url:
        raise PushError(
            "--to is empty, as a variable is that is not set; name a folder, s3://, gs://, sftp://, or hf://datasets/OWNER/NAME"
        )
    store = open_store(url)
    for folder in folders:
        if is_below(store, folder):
            raise PushError(f"{folder} would be sent into itself at {store.where}; name a place outside of it")
    items = gather(folders)
    check(items, packed=packed)
    plan = Plan(store.states(items), items)
    console.print(f"to {store.where}", highlight=False, markup=False, soft_wrap=True)
    console.print(plan.table())
    for remark in store.remarks:
        console.print(remark, highlight=False, markup=False, soft_wrap=True)
    differing = plan.of("other")
    if differing and not replace:
        names = ", ".join(item.name for item in differing[:NAMED]) + (f" and {len(differing) - NAMED} more" if differing[NAMED:] else "")
        raise PushError(f"{store.where} holds another {names}; nothing was sent: push to another place, or add --replace")
    sent = plan.of("new", "other")
    there = f"{len(plan.of('same'))} were there already"
    if dry_run:
        console.print(f"would send {len(sent)} files, {_size(sent)}; {there}", highlight=False)
        return
    if sent:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("sending", total=len(sent))
            store.send(sent, lambda count: progress.advance(task, count))
    console.print(f"sent {len(sent)} files, {_size(sent)}; {there}", highlight=False)


def _size(items: Sequence[Item]) -> str:
    return decimal(sum(item.size for item in items))
