"""Which of the bundled data tasks their own solutions solve, in which sandboxes::

    python tests/tasks/on_backends.py local docker podman

Prints the rewards of the solution and of an agent that writes nothing, a line a task. Exit code 1 unless the one is 1 and the other 0.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.models.trial.result import TrialResult
from harbor.trial.trial import Trial

from pytest_harness.resources import resource
from pytest_harness.sandboxes.local import ERROR_POLICY
from pytest_harness.verifiers.boxes import box_of
from pytest_harness.wire.guarding import AdapterError

FOLDER = resource("fixtures", "tasks", "data")
TASKS = sorted(path.parent for path in FOLDER.glob("*/task.toml"))
OUGHT = {"oracle": {"reward": 1.0}, "nop": {"reward": 0.0}}
"""What each of Harbor's two agents without a model earns."""


def play(task: Path, work: Path, environment: EnvironmentConfig, agent: str = "oracle") -> TrialResult:
    """One trial of the task; its folder is ``work/one``."""
    config = TrialConfig(
        task=TaskConfig(path=task),
        trials_dir=work,
        trial_name="one",
        agent=AgentConfig(name=agent),
        environment=environment,
        override_error_policy=ERROR_POLICY,
    )

    async def run() -> TrialResult:
        return await (await Trial.create(config)).run()

    return asyncio.run(run())


def earned(task: Path, environment: EnvironmentConfig, agent: str) -> Any:
    """The rewards, or what went wrong instead."""
    with tempfile.TemporaryDirectory(prefix="harness-tasks-") as work:
        result = play(task, Path(work), environment, agent)
    if result.exception_info is not None:
        return result.exception_info.exception_type
    return result.verifier_result.rewards if result.verifier_result is not None and result.reward_valid else None


def main(names: list[str]) -> int:
    """Play all tasks in each sandbox."""
    os.environ["HARBOR_TELEMETRY"] = "0"
    try:
        boxes = {name: box_of(name) for name in names or ["local"]}
    except AdapterError as error:
        print(error, file=sys.stderr)
        return 4
    wrong = 0
    for name, box in boxes.items():
        for task in TASKS:
            seen = {agent: earned(task, box.environment(broken=False), agent) for agent in OUGHT}
            wrong += seen != OUGHT
            told = "  ".join(f"{agent} {rewards}" for agent, rewards in seen.items())
            print(f"{name:8} {task.name:22} {told}{'' if seen == OUGHT else '  <- wrong'}", flush=True)
    print(f"{len(boxes) * len(TASKS) - wrong} of {len(boxes) * len(TASKS)} are solved by their solutions and by nothing less")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
