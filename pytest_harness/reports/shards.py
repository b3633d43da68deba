"""Runs that are divided over machines: who rolls out what, and one report of all of them again.

Evidence is what is joined, and all of it is judged once more: only that gives the verdict that one run would have given. The reports of
the shards say which rollouts there were to be, so what is missing is named, rollout by rollout, and is taken for nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_harness.evidence import find_evidence
from pytest_harness.reports.again import JudgedAgain, ReportError, judge_again, read_report
from pytest_harness.reports.model import LeftOut, Report, Shard
from pytest_harness.reports.store import REPORT
from pytest_harness.requirements import Catalogue

MOST = 1000


class ShardError(ValueError):
    """A shard that there cannot be; the message is one sentence."""


def read_shard(text: str) -> tuple[int, int]:
    """``3/8`` as its two numbers. Raises ShardError."""
    found = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", text)
    index, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= index <= count <= MOST:
        raise ShardError(f"--shard {text!r}: write which of how many, such as 3/8, of at most {MOST}")
    return index, count


def part[Item](items: Sequence[Item], index: int, count: int) -> Sequence[Item]:
    """What the shard has of these: neighbours, so that few shards install the same harness, and the same number in each, or one more."""
    return items[(index - 1) * len(items) // count : index * len(items) // count]


@dataclass(frozen=True)
class Merged:
    """All shards as one."""

    judged: JudgedAgain
    missing: tuple[str, ...]
    """What is not there, a sentence each."""


def merge(folders: Iterable[Path], catalogue: Catalogue) -> Merged:
    """Join what these folders hold: each the evidence and the report of a shard, somewhere below. Raises ReportError and EvidenceError.

    A folder that is not there is missing; shards of different runs, or one shard twice, are refused.
    """
    folders = tuple(dict.fromkeys(folders))
    missing = [f"{folder} is not there" for folder in folders if not folder.is_dir()]
    roots = [folder for folder in folders if folder.is_dir() and any(find_evidence(folder))]
    if not roots:
        raise ReportError(f"none of {', '.join(map(str, folders))} holds evidence; name the folders that hold what the shards wrote")
    reports = {path: read_report(path) for folder in folders for path in _reports(folder)}
    shards = _shards(reports)
    judged = judge_again(roots, catalogue)
    there = {attempt.name for seam in judged.report.seams for attempt in seam.attempts}
    absent = list(_absent(shards, there))
    if not shards:
        missing.append("no report of a shard is there, so nobody can say whether one is missing")
    missing += dict.fromkeys(each.why for each in absent)
    left_out = dict.fromkeys([*absent, *(each for report in reports.values() for each in report.left_out)])
    report = judged.report.model_copy(update={"left_out": tuple(left_out)})
    return Merged(JudgedAgain(report, judged.rollouts), tuple(missing))


def _reports(folder: Path) -> list[Path]:
    """Beside the evidence, never inside: a harness may well leave a file of that name."""
    return [path for place in (folder, *sorted(folder.glob("*/"))) if (path := place / REPORT).is_file()] if folder.is_dir() else []


def _shards(reports: Mapping[Path, Report]) -> Mapping[int, Shard]:
    """The shards by their numbers. Raises ReportError where they are not of one run."""
    found: dict[int, tuple[Path, Shard]] = {}
    for path, report in reports.items():
        if report.sabotage is not None:
            raise ReportError(f"{path} is of evidence that was broken on purpose ({report.sabotage}), which nobody joins; leave it out")
        if (shard := report.shard) is None:
            continue
        for other_path, other in found.values():
            if (other.count, other.rollouts) != (shard.count, shard.rollouts):
                raise ReportError(f"{other_path} and {path} are shards of different runs; name the shards of one run")
        if shard.index in found:
            raise ReportError(f"{found[shard.index][0]} and {path} are both shard {shard.index} of {shard.count}; name one of them")
        found[shard.index] = path, shard
    return {index: shard for index, (_, shard) in sorted(found.items())}


def _absent(shards: Mapping[int, Shard], there: set[str]) -> Iterator[LeftOut]:
    if not shards:
        return
    one = next(iter(shards.values()))
    for index in range(1, one.count + 1):
        why = (
            f"shard {index} of {one.count} is missing" if index not in shards else f"shard {index} of {one.count} brought no evidence of it"
        )
        yield from (LeftOut(rollout=name, why=why) for name in part(one.rollouts, index, one.count) if name.partition("#")[0] not in there)
