"""What the sandboxes of ours have in common as Harbor's environments.

Of a task's Dockerfile only WORKDIR is read, its other lines are not executed. There is never a network, whatever ``network_mode`` a task
asks for: ``public`` gets loopback only, too, and on it the one port that the rollout's gate serves. A call that does not go through that
port cannot leave. There is one user, root.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from abc import abstractmethod
from pathlib import Path, PurePosixPath
from typing import Any, override

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.definition import COMPOSE_FILE_NAME, DOCKERFILE_NAME
from harbor.environments.options import EnvironmentOptions
from harbor.models.trial.error_policy import ErrorPolicyOverride
from pydantic import Field

from pytest_harness.sandboxes.channel import RunningSandbox, SandboxDiedError, SandboxError
from pytest_harness.sandboxes.copying import Copier
from pytest_harness.sandboxes.gates import pass_gate
from pytest_harness.sandboxes.layout import PATH, SHIMS, Layout, LayoutError, Mount
from pytest_harness.sandboxes.limits import LimitError, Watch
from pytest_harness.sandboxes.running import Runner
from pytest_harness.seams.limits import Limits

KILLED = 128 + 9
"""How a command ends that the kernel has ended, for want of memory say."""

# For TrialConfig.override_error_policy: Harbor takes an exception it does not know for the agent's, and grades on.
ERROR_POLICY: dict[str, ErrorPolicyOverride] = {"SandboxDiedError": ErrorPolicyOverride(should_grade=False, has_valid_reward=False)}


class SandboxOptions(EnvironmentOptions):
    """The options (Harbor: kwargs) of a sandbox of ours. What of the host is to be seen inside is Harbor's ``EnvironmentConfig.mounts``."""

    shims: dict[str, str] = Field(default={}, description="Commands first in PATH: name -> text of the script.")
    files: dict[str, str] = Field(default={}, description="Files to put in at start: path -> text; ~ is the home of the exec user.")
    limits: Limits = Field(default=Limits(), description="How much of the machine it may use.")
    gate: str | None = Field(default=None, description="Key of an open gate (pytest_harness.sandboxes.gates) to pass at start.")


class HarborSandbox(BaseEnvironment):
    """One sandbox for one environment of a trial. Raises SandboxDiedError from whatever is asked of a dead one.

    A kind of sandbox says how one is started (``run``) and whether one could be (``refusal``).
    """

    options_model = SandboxOptions
    options: SandboxOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._runner: Runner | None = None
        self._workdir = self.task_env_config.workdir or dockerfile_workdir(self.environment_dir / DOCKERFILE_NAME) or "/"

    @abstractmethod
    def run(self, layout: Layout) -> RunningSandbox:
        """Start one; it is ready when this returns. Raises SandboxError."""

    @classmethod
    @abstractmethod
    def refusal(cls) -> str | None:
        """Why none can be started on this machine, in one sentence that says what to do; None if one can."""

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True, mounted=True)

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities | None:
        return EnvironmentResourceCapabilities()

    @override
    def _validate_definition(self) -> None:
        if (self.environment_dir / COMPOSE_FILE_NAME).exists():
            services = self.environment_dir / COMPOSE_FILE_NAME
            raise SandboxError(f"{services}: a sandbox of ours runs no services; run such a task with Harbor's own docker")

    @classmethod
    @override
    def preflight(cls, kwargs: dict[str, Any] | None = None) -> None:
        super().preflight(kwargs)
        if reason := cls.refusal():
            raise SystemExit(reason)

    # ---- life

    @override
    async def start(self, force_build: bool) -> None:
        if self._runner is not None:
            raise SandboxError(f"the sandbox {self.session_id} is already running")
        layout = Layout(mounts=self._bound_by_harbor(), shims=self.options.shims, files=self.options.files)
        starting = asyncio.ensure_future(asyncio.to_thread(self.run, layout))
        try:
            sandbox = await asyncio.shield(starting)
        except asyncio.CancelledError:  # the thread goes on: what it starts must not be left behind
            starting.add_done_callback(_close_unwanted)
            raise
        self._watch = Watch(sandbox, self.options.limits)
        self._runner = Runner(sandbox, struck=self._watch.struck)
        try:
            if self.options.gate is not None:
                pass_gate(self.options.gate, sandbox)
            await Copier(self._runner).script('mkdir -p -- "$1"', self._workdir)
            await self.ensure_dirs(self._mount_targets(writable_only=True))
            await self._upload_environment_dir_after_start()
        except BaseException:
            await self.stop(delete=True)
            raise

    def _bound_by_harbor(self) -> tuple[Mount, ...]:
        mounts = []
        for mount in self._host_mounts:
            if mount["type"] != "bind":
                raise SandboxError(f"a sandbox of ours mounts files and folders of the host, no {mount['type']} ({mount['target']})")
            source, read_only = Path(mount["source"]), bool(mount.get("read_only"))
            if not read_only and not source.exists():
                source.mkdir(parents=True)
                source.chmod(0o777)  # the user inside is not the host's when that is root
            try:
                mounts.append(Mount(source, str(mount["target"]), writable=not read_only))
            except LayoutError as error:
                raise SandboxError(str(error)) from None
        return tuple(mounts)

    @override
    async def stop(self, delete: bool) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()
            await asyncio.to_thread(runner.sandbox.close)

    def _running(self) -> Runner:
        if self._runner is None:
            raise SandboxDiedError(f"the sandbox {self.session_id} is not running")
        return self._runner

    # ---- commands

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        resolved = self._resolve_user(user)
        if resolved not in {None, "root", 0, "0"}:
            raise SandboxError(f"the sandbox has one user, root; it cannot run a command as {resolved!r} ([agent] user of the task?)")
        merged = self._merge_env(env) or {}
        path = merged.get("PATH")
        runner = self._running()
        try:
            finished = await runner.run(
                ["/bin/bash", "-c", command],
                env={**merged, "PATH": PATH if path is None else f"{SHIMS}:{path}"},
                cwd=cwd or self._workdir,
                timeout=timeout_sec,
            )
            if finished.code == KILLED and (error := await self._watch.out_of_memory()):
                raise error
        except TimeoutError:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds") from None
        except LimitError:  # with whatever else the command has started
            with contextlib.suppress(LimitError):
                await runner.run(["/bin/bash", "-c", "kill -KILL -1"])
            raise
        return ExecResult(
            stdout=finished.stdout.decode(errors="replace") or None,
            stderr=finished.stderr.decode(errors="replace") or None,
            return_code=finished.code,
        )

    # ---- files

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await Copier(self._running()).put_file(Path(source_path), self._inside(target_path))

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await Copier(self._running()).put_folder(Path(source_dir), self._inside(target_dir))

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await Copier(self._running()).get_file(self._inside(source_path), Path(target_path))

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        for name in await Copier(self._running()).get_folder(self._inside(source_dir), Path(target_dir)):
            self.logger.warning(f"not copied out of {source_dir}, because it leads out of the folder or is no file: {name!r}")

    def _inside(self, path: str) -> str:
        return str(PurePosixPath(self._workdir, path))


def _close_unwanted(starting: asyncio.Future[RunningSandbox]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()


def dockerfile_workdir(dockerfile: Path) -> str | None:
    """The WORKDIR of a Dockerfile's last stage, absolute; None without one. Raises SandboxError if it is computed from a variable."""
    workdir: PurePosixPath | None = None
    with contextlib.suppress(FileNotFoundError):
        for line in dockerfile.read_text().splitlines():
            word, _, rest = line.strip().partition(" ")
            if word.upper() == "FROM":
                workdir = None
            elif word.upper() == "WORKDIR" and rest.strip():
                if "$" in rest:
                    raise SandboxError(
                        f"{dockerfile}: the sandbox cannot compute {line.strip()!r}; write the path out, or set workdir in task.toml"
                    )
                workdir = PurePosixPath(workdir or "/") / rest.strip().strip("\"'")
    return None if workdir is None else os.fspath(workdir)
