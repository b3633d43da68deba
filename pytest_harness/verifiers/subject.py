"""What one test works with: the sandbox under test, and trials in it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from harbor.models.trial.config import AgentConfig, TaskConfig, TrialConfig
from harbor.trial.hooks import TrialEvent, TrialHookEvent
from harbor.trial.trial import Trial

from pytest_harness.evidence import Ending, Evidence
from pytest_harness.owners import temporary_folder
from pytest_harness.rollouts.aftermath import LOOKS, PAUSE_SEC, Aftermath
from pytest_harness.rollouts.offline import keep_litellm_offline
from pytest_harness.sandboxes.local import ERROR_POLICY
from pytest_harness.verifiers.agents import ACTING_AGENT, ActingAgent, Meeting, Watched
from pytest_harness.verifiers.boxes import Box
from pytest_harness.verifiers.canaries import HOST_PORT, LOOKED, SOLUTION, TESTS, WRITTEN, runs_here
from pytest_harness.verifiers.plays import NUMBERS, OPERATORS_ENVIRONMENT, SEAMS, Counted, Play, Silent
from pytest_harness.verifiers.reported import SAID, Told, evidence_of, told_in_reports
from pytest_harness.wire.guarding import AdapterError
from pytest_harness.wire.outcome import NotExercised, expect, same, shortened

FIRST = NUMBERS["one"].play
"""What a sandbox must be able to do before anything is held against it."""
DOCKERFILE = "FROM debian:bookworm-slim\n\nWORKDIR /app\n"


class Subject:
    """A sandbox with its verifier. Use it as a context manager; raises AdapterError where no agent can be run in it at all."""

    def __init__(self, name: str, box: Box) -> None:
        self.name = name
        self.box = box
        self._open = contextlib.ExitStack()
        self._played: dict[Play, Played] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            self._folder = opened.enter_context(temporary_folder("verifier"))
            first = self.played(FIRST)
            if not first.evidence.calls:
                raise AdapterError(f"--verifier {self.name}: no agent can be run in it: {first.failure}")
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @contextlib.contextmanager
    def case(self) -> Iterator[Case]:
        """What one test gets."""
        yield Case(self)

    def played(self, play: Play) -> Played:
        """What became of this trial. One that several requirements speak of is run once."""
        if play not in self._played:
            with _operators_environment():
                self._played[play] = asyncio.run(_played(self.name, self.box, play, self._folder / str(len(self._played))))
        return self._played[play]


@dataclass(frozen=True)
class Left:
    """A process that an agent left, seen from outside."""

    seen: bool
    """While the agent was there. Where it was not, the sandbox does not run on this machine, and nothing can be said."""
    still: bool
    """When the trial was over."""


@dataclass(frozen=True)
class Played:
    """One trial as evidence, as a rollout would leave it."""

    evidence: Evidence
    left: Left | None = None
    """What became of the process that the agent left, where it left one."""

    @property
    def result(self) -> Mapping[str, Any]:
        """What Harbor recorded; empty where it recorded nothing."""
        return self.evidence.trial_result or {}

    @property
    def rewards(self) -> Any:
        """What Harbor says that the verifier gave."""
        return (self.result.get("verifier_result") or {}).get("rewards")

    @property
    def valid(self) -> bool:
        """Whether Harbor calls the reward valid."""
        return self.result.get("reward_valid") is True

    @property
    def exception(self) -> str | None:
        """The name of what went wrong, if anything did."""
        recorded = (self.result.get("exception_info") or {}).get("exception_type")
        return recorded or self.evidence.manifest.ending.exception_type

    @property
    def failure(self) -> str:
        """What went wrong, in a line."""
        ending = self.evidence.manifest.ending
        message = (self.result.get("exception_info") or {}).get("exception_message") or ending.exception_message or "nothing says why"
        return f"{self.exception}: {shortened(' '.join(message.split()))}"

    @property
    def said(self) -> str:
        """What the verifier printed."""
        return self.evidence.files.get(SAID, "")

    @property
    def told(self) -> Told:
        """The same in the reports."""
        return told_in_reports(self.evidence)

    def document(self) -> dict[str, Any]:
        """For the findings."""
        message = (self.result.get("exception_info") or {}).get("exception_message", "")
        return {"rewards": self.rewards, "reward_valid": self.valid, "exception": self.exception, "message": message[-400:]}


class TrialLog:
    """The trials of one test, for the findings."""

    def __init__(self) -> None:
        self.played: list[Played] = []

    def documents(self, last: int = 1) -> list[dict[str, Any]]:
        """The last few, as JSON."""
        return [played.document() for played in self.played[-last:]]


class Case:
    """One test's view of the subject. Everything here raises Broken where it is not as asked."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.log = TrialLog()

    def play(self, play: Play) -> Played:
        """Run one trial."""
        played = self._subject.played(play)
        self.log.played.append(played)
        return played

    def counts(self, counted: Counted) -> None:
        """The reward is there as it was written, valid, and in the reports as well."""
        played = self.play(counted.play)
        same(played.rewards, dict(counted.rewards), "the rewards")
        expect(played.valid, "a reward that is called valid", f"reward_valid false, {played.exception}")
        alone = next(iter(counted.rewards.values())) if len(counted.rewards) == 1 else None
        told = played.told
        same(
            (told.of_json, told.of_html, told.mean),
            (alone, alone, alone),
            "the reward in report.json, in the data of the page, and the mean",
        )

    def is_closed(self, play: Play) -> None:
        """The agent looked, and found nothing; or tried, and nothing came of it."""
        played = self.play(play)
        looked, *found = played.said.splitlines() or [""]
        if looked != LOOKED:
            raise NotExercised(f"the agent could not look: {played.failure}")
        expect(not found, "nothing", shortened("; ".join(found)))

    def is_not_moved(self, play: Play) -> None:
        """The reward is not the one that a process of the agent wrote."""
        rewards = self.play(play).rewards
        if not rewards:
            raise NotExercised("no reward was given")
        expect(rewards != WRITTEN, "the number of the verifier", rewards)

    def is_over(self, play: Play) -> None:
        """When the trial is over, what the agent left is gone."""
        left = self.play(play).left
        if left is None or not left.seen:
            raise NotExercised("the processes of this sandbox are not among those of this machine")
        expect(not left.still, "no process of the sandbox", "the one that its agent left")

    def is_void(self, counted: Counted) -> None:
        """The reward is there as it was written and does not count: it is in no mean."""
        played = self.play(counted.play)
        same(played.rewards, dict(counted.rewards), "the rewards")
        expect(not played.valid, "a reward that is not called valid", played.exception)
        same((played.told.graded, played.told.mean), (0, None), "the rewards that count, and their mean")

    def is_silent(self, silent: Silent) -> None:
        """There is no reward, nothing calls one valid, and no form of the report makes a number of it."""
        played = self.play(silent.play)
        expect(not played.rewards, "no rewards", played.rewards)
        expect(not played.valid, "reward_valid false", "reward_valid true")
        told = played.told
        same(told.grade.value, None, "the reward as we read it")
        for form, value in (("report.json", told.of_json), ("the data of the page", told.of_html), ("the mean", told.mean)):
            same(value, None, f"the reward in {form}")
        same(told.of_markdown, "none", "the reward in the Markdown page")
        same(told.graded, 0, "the number of rewards that count")

    def is_named(self, silent: Silent) -> None:
        """What went wrong is recorded by its name, and blamed on whom it is to be blamed on."""
        played = self.play(silent.play)
        if played.rewards:
            raise NotExercised("a reward was given")
        if silent.any_exception:
            expect(played.exception, "an exception that says what happened", "none")
        elif silent.exceptions:
            expect(played.exception in silent.exceptions, " or ".join(sorted(silent.exceptions)), played.exception)
        else:
            same(played.exception, None, "the exception")
        grade = played.told.grade
        if silent.blame is not None:
            same(grade.blame, silent.blame, "who is to blame")
        expect(grade.reason, "a reason for people", "none")


async def _played(name: str, box: Box, play: Play, work: Path) -> Played:
    """Run the trial, and the one beside it if there is to be one."""
    async with contextlib.AsyncExitStack() as stack:
        key = work.name
        if play.leaves:
            ActingAgent.watched[key] = Watched(lambda: runs_here(play.leaves))
            stack.callback(ActingAgent.watched.pop, key)
        if play.beside:
            meeting = ActingAgent.meetings[key] = Meeting()
            stack.callback(ActingAgent.meetings.pop, key)
            stack.push_async_callback(
                _meet, meeting, asyncio.ensure_future(_trial(box, Play(command=play.beside, act="stay"), work / "beside", key))
            )
            play = dataclasses.replace(play, act="come_after")
        if play.calls_out:
            server = await stack.enter_async_context(await asyncio.start_server(_greet, "127.0.0.1", 0))
            told = (HOST_PORT, str(server.sockets[0].getsockname()[1]))
            play = dataclasses.replace(play, agent_variables=(*play.agent_variables, told))
        folder, ending = await _trial(box, play, work, key)
        watched = ActingAgent.watched.get(key)
        left = None if watched is None else Left(watched.seen, still=await _stays(lambda: runs_here(play.leaves)))
    return Played(evidence_of(name, folder, ending), left)


async def _meet(meeting: Meeting, other: asyncio.Future[tuple[Path, Ending]]) -> None:
    """Let the other trial end."""
    meeting.over.set()
    await other


async def _greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def _stays(there: Callable[[], bool]) -> bool:
    """Whether something is still there when it has had time to go."""
    for _ in range(LOOKS):
        if not there():
            return False
        await asyncio.sleep(PAUSE_SEC)
    return True


async def _trial(box: Box, play: Play, work: Path, key: str) -> tuple[Path, Ending]:
    """Run one trial in a folder of its own; the trial's folder therein, and how it ended."""
    task = _write_task(work / "task", play)
    config = TrialConfig(
        task=TaskConfig(path=task),
        trials_dir=work,
        trial_name=f"verifier-{uuid.uuid4().hex[:12]}",  # backends name what they start by it
        agent=AgentConfig(
            import_path=ACTING_AGENT,
            kwargs={"act": play.act, "command": play.command, "variables": dict(play.agent_variables), "key": key},
            override_timeout_sec=play.agent_sec,
            override_setup_timeout_sec=play.setup_sec,
        ),
        environment=box.environment(broken=play.broken),
        verifier=box.grading(disabled=play.disabled),
        override_error_policy=ERROR_POLICY,
    )
    ending = await _run(config, play)
    if play.act == "stay":  # it may never have got there: whoever waits for it looks anyway, and finds nothing
        ActingAgent.meetings[key].there.set()
    return work / config.trial_name, ending


async def _run(config: TrialConfig, play: Play) -> Ending:
    """Run the trial. Whatever Harbor raises is how it ended."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a host that turns warnings into errors means its own code, not Harbor's
            keep_litellm_offline()
            logging.getLogger("harbor").propagate = False
            trial = await Trial.create(config)
            if play.lost_while_grading:

                async def lose(_: TrialHookEvent) -> None:
                    await trial.agent_environment.stop(delete=True)

                trial.add_hook(TrialEvent.VERIFICATION_START, lose)
            if play.swept:
                Aftermath(work=config.trials_dir, secret=SEAMS, address=SEAMS).watch(trial)
            await trial.run()
    except Exception as error:  # noqa: BLE001 (it is what the case asks about)
        return Ending(how="raised", exception_type=type(error).__name__, exception_message=str(error))
    return Ending(how="finished")


def _write_task(task: Path, play: Play) -> Path:
    variables = "".join(f'{name} = "{value}"\n' for name, value in play.verifier_variables)
    mode = 'environment_mode = "separate"\n' if play.separate else ""
    health = '[environment.healthcheck]\ncommand = "false"\nretries = 1\n' if play.unhealthy else ""
    files = {
        "instruction.md": "Do what the case asks for.\n",
        "task.toml": (
            'schema_version = "1.4"\n[task]\nname = "harness-conformance/verifier"\n'
            f"[verifier]\n{mode}timeout_sec = {play.verifier_sec}\n[verifier.env]\n{variables}"
            f'[environment]\nworkdir = "/app"\n{health}'
        ),
        "environment/Dockerfile": DOCKERFILE,
        "tests/test.sh": f"#!/bin/bash\n# {TESTS}\ncd /app || exit 1\n{play.verdict}\n",
        "tests/expected.txt": f"{TESTS}\n",
        "solution/solve.sh": f"#!/bin/bash\n# {SOLUTION}\n",
    }
    for name, content in files.items():
        path = task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return task


@contextlib.contextmanager
def _operators_environment() -> Iterator[None]:
    """What Harbor takes an operator's keys from; as it was when this ends."""
    before = {name: os.environ.get(name) for name in OPERATORS_ENVIRONMENT}
    os.environ.update(OPERATORS_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
