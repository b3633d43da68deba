"""One Harbor trial: Harbor's own adapter for the harness, our sandbox, a bundled task.

Harbor reads the reward, converts the harness's log to ATIF and writes its trial folder; we change nothing of that.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.trial.hooks import TrialEvent, TrialHookEvent
from harbor.trial.trial import Trial

from pytest_harness.evidence import Ending
from pytest_harness.rollouts.aftermath import Aftermath
from pytest_harness.rollouts.far import Visit
from pytest_harness.rollouts.native import collect_native
from pytest_harness.rollouts.offline import keep_litellm_offline
from pytest_harness.sandboxes.environment import ERROR_POLICY
from pytest_harness.seams import RenderedAgent

SETUP_TIMEOUT_SEC = 120.0
COMMAND_AGENT = "pytest_harness.rollouts.command_agent:CommandAgent"


def agent_config(agent: RenderedAgent, *, harness: str, harness_version: str) -> AgentConfig:
    """Harbor's configuration of the harness, as the seam row says it. The harness is there already: nothing is installed."""
    common: dict[str, Any] = {
        "env": dict(agent.env),
        "override_timeout_sec": agent.timeout_sec,
        "override_setup_timeout_sec": SETUP_TIMEOUT_SEC,
        "model_name": agent.model,
    }
    if agent.command is not None:
        command = {"command": agent.command, "harness": harness, "harness_version": harness_version}
        # The command is told the model by its row: nothing needs to parse the name, nor the LiteLLM with which Harbor would.
        return AgentConfig(import_path=COMMAND_AGENT, kwargs=command, skip_model_parsing=True, **common)
    return AgentConfig(
        **{
            "name": agent.harbor,
            "base_url": agent.base_url,
            "kwargs": dict(agent.kwargs),
            **common,
            **agent.fields,
        }
    )


async def run_trial(
    *,
    agent: AgentConfig,
    task: Path,
    sandbox: EnvironmentConfig,
    work: Path,
    native_log: str | None,
    aftermath: Aftermath,
    visit: Visit | None = None,
) -> Ending:
    """Run one trial; its folder is ``work/trial``, the harness's own log goes to ``work/native``.

    Whatever Harbor raises becomes the ending, never an exception. ``aftermath`` ends what the agent leaves running before it is graded.
    """
    config = TrialConfig(
        task=TaskConfig(path=task),
        trials_dir=work,
        trial_name="trial",
        agent=agent,
        environment=sandbox,
        override_error_policy=ERROR_POLICY,
    )
    try:
        keep_litellm_offline()
        # Harbor's log goes into the trial's folder; a host's own log need not have it too.
        logging.getLogger("harbor").propagate = False
        trial = await Trial.create(config)
        if native_log is not None:
            trial.add_hook(TrialEvent.AGENT_END, _collecting(trial, native_log, work / "native"))
        aftermath.watch(trial)
        if visit is None:
            await trial.run()
        else:
            visit.watch(trial)
            async with visit:
                await trial.run()
    except Exception as error:  # noqa: BLE001 (a converter's fault leaves Trial.run() as any exception: it is evidence)
        return Ending(how="raised", exception_type=type(error).__name__, exception_message=str(error))
    return Ending(how="finished")


def _collecting(trial: Trial, pattern: str, target: Path) -> Callable[[TrialHookEvent], Awaitable[None]]:
    async def collect(_: TrialHookEvent) -> None:
        # Harbor books what a hook raises as the agent's own exception; a log that cannot be had is not the agent's.
        with contextlib.suppress(Exception):
            await collect_native(trial.agent_environment, pattern, target)

    return collect
