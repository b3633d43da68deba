"""What one test works with: the runtime under test, scripts for it, and what was seen of its episodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pytest_harness.owners import temporary_folder
from pytest_harness.runtimes.adapter import Episode, Limits, Message, ModelStep, Result, RuntimeAdapter, Tool
from pytest_harness.runtimes.pairing import answers, paired
from pytest_harness.runtimes.script import TOOLS, Asked, Made, ScriptedEnvironment, ScriptedModel
from pytest_harness.wire.guarding import AdapterError, running
from pytest_harness.wire.outcome import Broken, expect, same

GRADED = 0.5
"""What an episode is worth where its reward is not the point."""
_SHOWN = 2000


class Subject:
    """The runtime under test, started. Use it as a context manager; raises AdapterError if it cannot be started."""

    def __init__(self, adapter: RuntimeAdapter) -> None:
        self.adapter = adapter
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            folder = opened.enter_context(temporary_folder("runtime"))
            opened.enter_context(running(self.adapter, lambda: self.adapter.start(folder), self.adapter.stop))
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @contextlib.contextmanager
    def case(self) -> Iterator[Case]:
        """What one test gets."""
        yield Case(self.adapter)


@dataclass(frozen=True)
class Played:
    """One episode: what the model and the environment were asked, and what the runtime kept of it."""

    model: ScriptedModel
    environment: ScriptedEnvironment
    episode: Episode

    @property
    def asked(self) -> Sequence[Asked]:
        """What the model was shown, step by step."""
        return self.model.asked

    @property
    def made(self) -> Sequence[Made]:
        """The calls that reached the environment."""
        return self.environment.made

    def answers(self, turn: int) -> tuple[Message, ...]:
        """The results behind the model's step, as the runtime keeps them. Raises Broken if it keeps no such step."""
        return answers(self.episode.messages, turn)

    def answer(self, turn: int, place: int = 0) -> str:
        """The text of one of them. Raises Broken if there is none."""
        found = self.answers(turn)
        if place >= len(found):
            raise Broken(f"a result of call {place + 1} of step {turn + 1}", f"{len(found)} results; the episode {self.told}")
        return found[place].text

    @property
    def told(self) -> str:
        """How it ended, for people."""
        return f"{self.episode.ended}{f' ({self.episode.error})' if self.episode.error else ''}"

    def paired(self) -> None:
        """Raise Broken unless each call is answered or withdrawn, in all that the model was shown and in what is kept."""
        for number, asked in enumerate(self.asked, start=1):
            paired(asked.messages, f"in the prompt of step {number}")
        paired(self.episode.messages, "in the record")

    def goes_on(self, steps: int) -> None:
        """Raise Broken unless the model was asked so often and the episode did not fail."""
        expect(
            self.episode.ended != "failed" and len(self.asked) == steps,
            f"an episode of {steps} steps that does not fail",
            f"{len(self.asked)} steps; {self.told}",
        )


class EpisodeLog:
    """The episodes of one test, for the findings."""

    def __init__(self) -> None:
        self.played: list[Played] = []

    def documents(self, last: int = 1) -> list[dict[str, Any]]:
        """The last few, as JSON: their messages as lines, and how they ended."""
        return [_document(played) for played in self.played[-last:]]


class Case:
    """One test's view of the runtime."""

    def __init__(self, adapter: RuntimeAdapter) -> None:
        self.adapter = adapter
        self.log = EpisodeLog()

    def play(
        self,
        *steps: ModelStep | Exception,
        results: Sequence[Result | Exception | None] = (),
        reward: float | None = GRADED,
        tools: Sequence[Tool] = TOOLS,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> Played:
        """Run one episode of this script."""
        model, environment = ScriptedModel(steps), ScriptedEnvironment(results, reward=reward, tools=tools)
        played = Played(model, environment, _checked(self.adapter.runtime().run(model, environment, limits)))
        self.log.played.append(played)
        return played

    def reward_is(self, played: Played, reward: float | None) -> None:
        """Raise Broken unless the kept reward is this one."""
        same(played.episode.reward, reward, "the reward of the episode")


def _checked(episode: object) -> Episode:
    """What a runtime's ``run`` returned. Raises AdapterError unless it is an episode of which the suite can speak."""
    if not isinstance(episode, Episode):
        raise AdapterError(f"run() returned {type(episode).__name__}, an Episode is expected")
    if not (isinstance(episode.messages, list | tuple) and all(isinstance(each, Message) for each in episode.messages)):
        raise AdapterError("run() returned an Episode whose messages are no tuple of Message")
    if not (isinstance(episode.error, str) and isinstance(episode.metrics, Mapping)):
        raise AdapterError("run() returned an Episode whose error is no text, or whose metrics are no mapping")
    return episode


def _document(played: Played) -> dict[str, Any]:
    episode = played.episode
    lines = [[message.role, _line(message)[:_SHOWN]] for message in episode.messages]
    lines.append(["ended", f"{played.told}, reward {episode.reward}, metrics {dict(episode.metrics)}"])
    return {"steps": len(played.asked), "calls_made": len(played.made), "lines": lines}


def _line(message: Message) -> str:
    calls = "".join(f" [{call.id}: {call.name} {call.arguments}]" for call in message.calls)
    return f"{'' if message.call_id is None else f'[{message.call_id}] '}{message.text}{calls}"
