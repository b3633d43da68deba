"""Looks at a sandbox between the agent's end and the verifier's start, and ends what the agent left running there.

A daemon of the agent could otherwise write the reward while the verifier does, and Harbor would take it for the verifier's. What is
found is evidence (``Grading``): whose processes ran, what the verifier's environment holds, where the harness wrote its key, and when the
reward was written. What cannot be looked at stays None; nothing here ever fails a trial.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harbor.environments.base import BaseEnvironment
from harbor.trial.hooks import TrialEvent, TrialHookEvent
from harbor.trial.trial import Trial
from harbor.utils.env import resolve_env_vars

from pytest_harness.evidence import Grading, Inside
from pytest_harness.rollouts.inside import look_inside

REWARDS = ("trial/verifier/reward.json", "trial/verifier/reward.txt")
"""In the order in which Harbor reads them."""
LOGS = ("trial/agent", "native")
LOOKS = 40
"""How often the processes are looked at until they have died of a SIGKILL, which takes a moment."""
PAUSE_SEC = 0.05

_LIST = 'echo "$$"; for file in /proc/[0-9]*/stat; do { read -r line < "$file"; } 2>/dev/null && printf \'%s\\n\' "$line"; done; true'
_STAT = re.compile(r"(?P<pid>\d+) \((?P<name>.*)\) (?P<rest>.*)")
_STARTED = 19
"""Where the start time stands behind the name, see proc_pid_stat(5)."""


@dataclass(frozen=True)
class Running:
    """One process in the sandbox: its number may be used again, together with its start time it is not."""

    pid: int
    started: str
    parent: int
    state: str
    name: str


class Aftermath:
    """Watches one trial. ``secret`` and ``address`` are the attempt's key and the proxy's address, as the sandbox sees them.

    ``alone`` says that nothing runs in the sandbox but what the trial starts. Else what was there before the agent is left alone: it may
    be what the backend keeps the sandbox with.
    """

    def __init__(self, *, work: Path, secret: str, address: str, alone: bool = True) -> None:
        self._work = work
        self._secret = secret
        self._alone = alone
        self._address = address
        self._before: frozenset[tuple[int, str]] | None = None
        self._grading: Grading | None = None
        self.inside: Inside | None = None
        """What the agent was to find in its sandbox; None where nobody could look."""
        self._shares_clock = False

    def watch(self, trial: Trial) -> None:
        """Hook into the trial, behind what collects the harness's own log."""

        async def remember(_: TrialHookEvent) -> None:
            # Harbor books what this hook raises as the agent's own exception.
            with contextlib.suppress(Exception):
                self._before = frozenset((each.pid, each.started) for each in await processes(trial.agent_environment))
            with contextlib.suppress(Exception):
                self.inside = await look_inside(trial.agent_environment)

        async def examine(_: TrialHookEvent) -> None:
            # Harbor gives no reward where this hook raises; a sandbox that is dead by now says so to the verifier itself.
            with contextlib.suppress(Exception):
                await self._examine(trial)

        trial.add_hook(TrialEvent.AGENT_START, remember)
        trial.add_hook(TrialEvent.VERIFICATION_START, examine)

    def grading(self) -> Grading | None:
        """What was found, once the trial is over; None where it was not graded."""
        if self._grading is None or not self._shares_clock:
            return self._grading
        written = next((path.stat().st_mtime for path in map(self._work.joinpath, REWARDS) if path.is_file()), None)
        return self._grading.model_copy(update={"reward_written": written})

    async def _examine(self, trial: Trial) -> None:
        environment = trial.agent_environment
        running = await self._left(environment)
        survivors = running
        await self._end_all(environment)
        for _ in range(LOOKS):
            survivors = await self._left(environment)
            if not survivors:
                break
            await asyncio.sleep(PAUSE_SEC)
        found = Grading(began=time.time(), running=running, survivors=survivors, key_in_files=self._key_in_files())
        self._grading = found  # what follows may fail, this is known
        self._shares_clock = environment.capabilities.mounted  # what can mount our folders runs on our machine
        if trial.result.verifier_environment_mode != "separate":
            self._grading = found.model_copy(update=await self._variables(environment, trial))

    async def _end_all(self, environment: BaseEnvironment) -> None:
        """End what the agent left running."""
        if self._alone:
            await environment.exec("kill -KILL -1", user="root")
        elif self._before is not None:
            left = [str(each.pid) for each in await processes(environment) if (each.pid, each.started) not in self._before]
            await environment.exec(f"kill -KILL {' '.join(left)}" if left else "true", user="root")

    async def _left(self, environment: BaseEnvironment) -> tuple[str, ...] | None:
        """The names of what runs now and did not before the agent began; None where that cannot be told."""
        if self._before is None:
            return None
        try:
            running = await processes(environment)
        except Exception:  # noqa: BLE001 (each backend has its own; what runs must be ended also where it cannot be listed)
            return None
        return tuple(sorted(each.name for each in running if (each.pid, each.started) not in self._before))

    async def _variables(self, environment: BaseEnvironment, trial: Trial) -> dict[str, object]:
        """What a command of the verifier finds in its environment, and what the operator meant it to find there."""
        meant = resolve_env_vars({**trial.task.config.verifier.env, **trial.config.verifier.env})
        listing = await environment.exec("env -0", env=meant or None)
        seen = dict(entry.split("=", 1) for entry in (listing.stdout or "").split("\0") if "=" in entry)
        return {"variables": tuple(sorted(seen)), "seam_variables": self._of_the_seam(seen), "own_variables": kept(meant, seen)}

    def _of_the_seam(self, variables: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(sorted(name for name, value in variables.items() if self._secret in value or self._address in value))

    def _key_in_files(self) -> tuple[str, ...]:
        """Looked for before Harbor and the store redact it."""
        secret = self._secret.encode()
        files = sorted(path for folder in LOGS for path in (self._work / folder).rglob("*") if path.is_file() and not path.is_symlink())
        return tuple(path.relative_to(self._work).as_posix() for path in files if secret in path.read_bytes())


def kept(meant: Mapping[str, str], seen: Mapping[str, str]) -> dict[str, bool]:
    """By name, whether a variable has the value that was meant."""
    return {name: seen.get(name) == value for name, value in sorted(meant.items())}


async def processes(environment: BaseEnvironment) -> tuple[Running, ...]:
    """What runs in the sandbox, less the command that looks, what it was started by, and what is dead and not yet buried."""
    listing = await environment.exec(_LIST, user="root")
    first, *lines = (listing.stdout or "").splitlines()
    running = [each for each in map(_parsed, lines) if each is not None]
    ours = _lineage(int(first), running)
    return tuple(each for each in running if each.pid not in ours and each.parent != int(first) and each.state not in {"Z", "X"})


def _parsed(line: str) -> Running | None:
    match = _STAT.fullmatch(line)
    if match is None:  # a name with a line break in it: its second line
        return None
    rest = match["rest"].split()
    return Running(int(match["pid"]), rest[_STARTED], int(rest[1]), rest[0], match["name"])


def _lineage(pid: int, running: list[Running]) -> set[int]:
    """The process and all that it descends from."""
    parents = {each.pid: each.parent for each in running}
    found = {pid}
    while (pid := parents.get(pid, 0)) > 0 and pid not in found:
        found.add(pid)
    return found
