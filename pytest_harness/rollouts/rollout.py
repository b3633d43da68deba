"""One rollout: the real harness on a real task, every model call through our proxy to an engine, frozen as evidence."""

from __future__ import annotations

import asyncio
import platform
import shutil
import uuid
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pytest_harness import __version__
from pytest_harness.capture import CaptureProxy
from pytest_harness.capture.front import Way
from pytest_harness.contract.grading import recorded_choice
from pytest_harness.engines.scripted import OtherCall, Script, ShellTool, Step
from pytest_harness.engines.scripted.script import SIDE_ANSWER
from pytest_harness.evidence import Ending, Evidence, Manifest, write_evidence
from pytest_harness.evidence.store import FILE_FOLDERS
from pytest_harness.provision import Installed
from pytest_harness.rollouts.company import companion_of
from pytest_harness.rollouts.engines import Engine, SharedEngine, engine_of
from pytest_harness.rollouts.far import far_place
from pytest_harness.rollouts.meeting import met
from pytest_harness.rollouts.places import place_of
from pytest_harness.rollouts.player import Player
from pytest_harness.rollouts.policy import follows
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.rollouts.wording import worded, worded_facts
from pytest_harness.rollouts.workplace import workplace
from pytest_harness.scenarios import ScenarioStep
from pytest_harness.serving import BackgroundServer


def run_rollout(
    spec: RolloutSpec,
    installed: Installed,
    *,
    evidence_dir: Path,
    run_id: str,
    requirements: str,
    shared: SharedEngine | None = None,
    way: Way | None = None,
) -> Path:
    """Run one attempt, on an engine of its own or the ``shared`` one, and return the folder of its evidence.

    The attempt's working folder lies beside the evidence until it is frozen, so that a crash leaves the journal and Harbor's
    files; the next run of the same attempt starts anew.
    """
    with workplace(evidence_dir, spec.id) as work:
        return _run(spec, installed, work, evidence_dir=evidence_dir, run_id=run_id, requirements=requirements, shared=shared, way=way)


def _run(
    spec: RolloutSpec,
    installed: Installed,
    work: Path,
    *,
    evidence_dir: Path,
    run_id: str,
    requirements: str,
    shared: SharedEngine | None,
    way: Way | None,
) -> Path:
    attempt_id = uuid.uuid4().hex
    started = _now()
    proxy = CaptureProxy()
    place = (
        place_of(spec.sandbox, spec.boxing, installed) if spec.remote is None else far_place(spec.remote, spec.seam.harness, installed, way)
    )
    specs = [replace(spec, scenario=scenario) for scenario in spec.scenario.rollouts]
    with ExitStack() as stack:
        engine, *others = stack.enter_context(met([stack.enter_context(_engine(each, installed, shared)) for each in specs]))
        server = stack.enter_context(BackgroundServer(proxy))
        player = Player(spec, place, engine, proxy, server, work)
        companions = [
            Player(each, place, its, proxy, server, _folder(work / f"companion-{number}"))
            for number, (each, its) in enumerate(zip(specs[1:], others, strict=True), start=1)
        ]
        ending, *endings = asyncio.run(_play([player, *companions]))
        calls, *their_calls = [each.close() for each in (player, *companions)]
        engine.keep_log(work / "engine")
    gone = [each.clear_away() for each in (player, *companions)]
    manifest = Manifest(
        attempt_id=attempt_id,
        run_id=run_id,
        harness=spec.seam.name,
        sandbox=spec.sandbox,
        engine=spec.engine,
        scenario=worded_facts(spec.scenario, spec.seam),
        attempt=spec.attempt,
        seam=spec.seam.facts,
        model=engine.upstream.model,
        versions={
            "harness": installed.version,
            "harbor": version("harbor"),
            "harness-conformance": __version__,
            **place.versions,
            "python": platform.python_version(),
            **engine.versions,
        },
        digests={"harness": installed.digest, **place.digests, **engine.digests},
        rejected=proxy.rejected,
        key_digest=player.key_digest,
        network="open" if spec.seam.outside or spec.remote is not None else "none",  # ours have no way out but the proxy's port
        step_limit=spec.step_limit,
        purpose=player.session.purpose,
        sandbox_gone=None if None in gone else all(gone),
        inside=player.inside,
        grading=player.grading,
        requirements=requirements,
        started_at=started,
        ended_at=_now(),
        ending=ending,
    )
    manifest = manifest.model_copy(
        update={
            "reward": recorded_choice(Evidence(manifest, calls, player.verdict())),
            "companions": tuple(
                companion_of(each, player, Evidence(manifest.model_copy(update={"ending": its_ending}), its_calls, each.verdict()))
                for each, its_ending, its_calls in zip(companions, endings, their_calls, strict=True)
            ),
        }
    )
    folders = {name: work / name for name in FILE_FOLDERS}
    secrets = (*(each.session.key for each in (player, *companions)), engine.upstream.api_key)
    folder = write_evidence(evidence_dir, manifest, calls, folders, secrets=tuple(filter(None, secrets)))
    shutil.rmtree(work)
    return folder


def _engine(spec: RolloutSpec, installed: Installed, shared: SharedEngine | None) -> AbstractContextManager[Engine]:
    taught = follows(spec.seam.name, installed.version, spec.scenario)
    return engine_of(script_of(spec), shared, salt=uuid.uuid4().hex, faults=spec.scenario.faults, taught=taught)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


async def _play(players: Sequence[Player]) -> list[Ending]:
    """All at the same time; the ending of each."""
    with warnings.catch_warnings():
        # A host that turns warnings into errors means its own code, not Harbor's.
        warnings.simplefilter("ignore")
        return await asyncio.gather(*(player.play() for player in players))


def script_of(spec: RolloutSpec) -> Script:
    """The scenario's script in the words of this harness's tools. Raises SeamError if its row does not say what it needs for that."""
    scenario, row = worded(spec.scenario, spec.seam), spec.seam.shell
    shell = None if row is None or row.tool is None or row.text is not None else ShellTool(row.tool, row.argument, dict(row.extra))
    asked, instruction = scenario.subagent, scenario.instruction
    summed_up = scenario.needs == "compaction" or any(fault.kind == "overflow" for fault in scenario.faults)
    delegation = None if asked is None else OtherCall(*spec.seam.delegation(asked.prompt))
    others = () if asked is None else (Script(_steps(asked.steps, None), shell, instruction=asked.prompt),)
    ending = spec.seam.finish.call(scenario.steps[-1].text)
    return Script(
        _steps(scenario.steps, delegation),
        shell,
        finish_command=spec.seam.finish.command if shell else None,
        finish_call=None if ending is None else OtherCall(*ending),
        instruction=instruction,
        others=others,
        side_answer=f"{SIDE_ANSWER} The task is still this one: {instruction.strip()}" if summed_up else SIDE_ANSWER,
        sums_up=summed_up,
    )


def _steps(steps: tuple[ScenarioStep, ...], delegation: OtherCall | None) -> tuple[Step, ...]:
    """The steps as the engine takes them; ``delegation`` is the call that gives the subagent its task."""
    return tuple(
        Step(
            step.text,
            step.shell,
            reasoning=step.reasoning,
            then=step.then,
            calls=(delegation,) if step.subagent and delegation is not None else (),
        )
        for step in steps
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
