"""Fills a harness's own trajectory with the captured ids and logprobs: one file that is trace, SFT data and RL data.

Only a copy is ever filled. What cannot be put beside its call without a guess, and what is below the token contract, is refused: a file
with some of the ids looks like one with all of them.
"""

from __future__ import annotations

import copy
import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_harness.atif import PATH, VERSIONS, Document, Step
from pytest_harness.atif.document import whole
from pytest_harness.contract import judge_one
from pytest_harness.contract.trajectory.alignment import Pair, align
from pytest_harness.contract.trajectory.expected import COUNTS, expected_tokens, explained
from pytest_harness.contract.trajectory.reading import in_steps, trace_of
from pytest_harness.evidence import Evidence, attempt_dir
from pytest_harness.evidence.model import Call
from pytest_harness.requirements import Catalogue
from pytest_harness.textfile import write_text

FAMILIES = ("TOK", "LGP")
"""The families whose MUSTs the evidence must keep: the token contract."""
LOG = ("ATF-001", "ATF-002", "ATF-007", "ATF-009", "ATF-018", "ATF-021")
"""What the trajectory itself must keep: else it is not the log of these calls, or no reader would take the copy."""
OLDEST = 4
"""The first minor version that has ids of prompts as well as of replies."""
NOTE = "Token ids and logprobs were filled in from the captured calls by harness-conformance."
SUFFIX = "harness_conformance"
"""Under which key of ``metrics.extra`` it stands which call was filled in."""

Json = dict[str, Any]


class FillError(Exception):
    """A trajectory that cannot be filled; the message is one sentence that says why and what to do."""


def fill(evidence: Evidence, catalogue: Catalogue) -> dict[str, Json]:
    """The documents of the trajectory with the captured ids, by the path of each file relative to the trajectory's folder.

    Raises FillError where that would be a guess or break the token contract.
    """
    trace = trace_of(evidence)
    if trace is None and (several := in_steps(evidence)):
        raise FillError(f"{evidence.name}: {several}")
    if trace is None:
        raise FillError(f"{evidence.name}: there is no {PATH} to fill; only a harness with a trajectory of its own has one")
    for name in dict.fromkeys(_needed(catalogue)):
        judgement = judge_one(evidence, catalogue[name])
        if judgement.result in {"failed", "error", "deviation"}:
            found = f": {judgement.findings[0].where}: seen {judgement.findings[0].seen}" if judgement.findings else ""
            raise FillError(f"{evidence.name}: {name} {judgement.requirement.title} does not hold{found}; see the report of judge")
    calls = _calls(evidence)
    folder = posixpath.dirname(PATH)
    filled = {}
    for document in trace.documents:
        if not document.place:  # an embedded subagent is filled with the document that it is in
            family = [other for other in trace.documents if other.path == document.path]
            try:
                filled[posixpath.relpath(document.path, folder)] = _filled(document, family, calls)
            except RecursionError:
                raise FillError(f"{evidence.name}: {document.path} is nested too deeply to be copied; it is not filled") from None
    return filled


def fill_into(root: Path, evidences: Mapping[Path, Evidence], catalogue: Catalogue) -> tuple[list[Path], list[str]]:
    """Fill the trajectory of each evidence, given by its folder, below ``root``; evidence is only read.

    Returns the trajectories that were written, each in the place below ``root`` that its evidence has below its own root, and for each
    other why it was not. Raises OSError where nothing can be written.
    """
    written: list[Path] = []
    refused: list[str] = []
    for evidence in evidences.values():
        manifest = evidence.manifest
        folder = attempt_dir(
            root,
            harness=manifest.harness,
            sandbox=manifest.sandbox,
            engine=manifest.engine,
            scenario=manifest.scenario.name,
            attempt=manifest.attempt,
        )
        try:
            _free(evidence, folder, evidences, written)
            written.append(_write(evidence, catalogue, folder))
        except FillError as error:
            refused.append(str(error))
    return written, refused


def _free(evidence: Evidence, folder: Path, kept: Iterable[Path], written: Iterable[Path]) -> None:
    if any(folder.resolve().is_relative_to(each.resolve()) for each in kept):
        raise FillError(f"{evidence.name}: {folder} is evidence, which is never changed; name another folder")
    if any(path.parent == folder for path in written):
        raise FillError(f"{evidence.name}: {folder} has the trajectory of another attempt already; fill one root of evidence at a time")


def _write(evidence: Evidence, catalogue: Catalogue, folder: Path) -> Path:
    for name, document in fill(evidence, catalogue).items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise FillError(f"{evidence.name}: the trajectory refers to {name}, which is outside its own folder; it is not filled")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(document, ensure_ascii=False) + "\n")
    return folder / posixpath.basename(PATH)


def _needed(catalogue: Catalogue) -> Iterator[str]:
    for requirement in catalogue.of("seam"):
        if (requirement.family in FAMILIES and requirement.binding) or requirement.id in LOG:
            yield requirement.id


def _calls(evidence: Evidence) -> dict[str, Call]:
    """The call of each step, by where the step stands."""
    alignment = align(evidence)
    if not alignment.pairs:
        raise FillError(f"{evidence.name}: no step of the trajectory tells a call that was captured; there is nothing to fill in")
    if alignment.uncaptured:
        raise FillError(
            f"{_at(evidence, alignment.uncaptured[0])} tells a call of which nothing says which it is; it would have to be guessed"
        )
    if alignment.ambiguous:
        raise FillError(
            f"{_at(evidence, alignment.ambiguous[0])} could be one of several calls, as nothing but its place tells which it is"
        )
    silent = {turn.call.index for turn in explained(evidence)}
    if lost := [turn.call.index for turn in alignment.unlogged if turn.call.index not in silent]:
        raise FillError(f"{evidence.name}: call {lost[0]} is told by no step, so a filled trajectory would be without it")
    # A stop reply is nothing the model said, and what a call said that failed was not waited for.
    answered = [pair for pair in alignment.pairs if pair.turns[0].call.outcome == "complete"]
    return {pair.steps[0].at(): _call(evidence, pair) for pair in answered}


def _call(evidence: Evidence, pair: Pair) -> Call:
    step, call = pair.steps[0], pair.turns[0].call
    if len(pair.steps) > 1:
        raise FillError(f"{_at(evidence, step)} and {pair.steps[1].at()} are one call; its ids would be trained on twice")
    if len(pair.turns) > 1 or (step.count or 1) != 1:
        raise FillError(f"{_at(evidence, step)} sums up several calls, whose ids are no one sequence")
    sample = call.samples[0] if len(call.samples) == 1 else None
    if sample is None or call.prompt_ids is None or sample.token_ids is None or sample.logprobs is None:
        raise FillError(f"{_at(evidence, step)} is call {call.index}, which has not exactly one reply with ids and logprobs")
    wire = expected_tokens(pair.turns[0], evidence.manifest.seam.accounting)
    for name in COUNTS:
        told = whole(step.metrics.get(name))
        if told is not None and told != wire[name]:
            raise FillError(
                f"{_at(evidence, step)} counts {told} {name}, and call {call.index} has {wire[name]}; one of them is another call"
            )
    return call


def _filled(document: Document, family: list[Document], calls: dict[str, Call]) -> Json:
    raw = copy.deepcopy(document.raw)
    for member in family:
        inside = _inside(raw, member.place)
        changed = False
        for step in member.steps:
            if (call := calls.get(step.at())) is not None:
                _put(inside["steps"][step.position], call)
                changed = True
        if changed:
            if (member.version or 0) < OLDEST:
                inside["schema_version"] = VERSIONS[OLDEST]
            inside["notes"] = f"{inside['notes']} {NOTE}" if inside.get("notes") else NOTE
    return raw


def _put(step: Json, call: Call) -> None:
    sample = call.samples[0]
    metrics = {**(step.get("metrics") or {})}
    ids = {"prompt_token_ids": call.prompt_ids, "completion_token_ids": sample.token_ids, "logprobs": sample.logprobs}
    metrics |= {name: list(values or ()) for name, values in ids.items()}
    metrics |= {"prompt_tokens": len(call.prompt_ids or ()), "completion_tokens": len(sample.token_ids or ())}
    mark: Json = {"call": call.index, "id": call.id}
    if call.constraints:
        mark["constraints"] = list(call.constraints)  # something but the model decided what could be sampled
    metrics["extra"] = {**(metrics.get("extra") or {}), SUFFIX: mark}
    step["metrics"] = metrics


def _inside(raw: Json, place: str) -> Json:
    """The embedded document at a place such as ``subagent_trajectories[0].subagent_trajectories[2]``."""
    for part in filter(None, place.split(".")):
        raw = raw["subagent_trajectories"][int(part.partition("[")[2].rstrip("]"))]
    return raw


def _at(evidence: Evidence, step: Step) -> str:
    return f"{evidence.name}: {step.at()}"
