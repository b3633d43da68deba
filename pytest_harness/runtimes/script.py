"""The model and the environment of the suite: they do what a script says, and remember what they were asked."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_harness.runtimes.adapter import Message, ModelStep, Result, Tool, ToolCall

BEGINNING = (Message("system", "You work with tools."), Message("user", "Find the word."))
TOOLS = (Tool("look", "Looks at something."), Tool("write", "Writes something."))
LAST = ModelStep("Done.")
_ARGUMENTS = '{"text": "%s"}'

Steps = Sequence[ModelStep | Exception]


def say(text: str, *calls: ToolCall) -> ModelStep:
    """A step of the model: a text and tool calls."""
    return ModelStep(text, calls)


def call(id_: str | None, text: str, name: str = "look") -> ToolCall:
    """A tool call whose result can be told from all others by its text."""
    return ToolCall(id_, name, _ARGUMENTS % text)


def seen_of(text: str) -> str:
    """What stands in the result of the call with this text, and nowhere else."""
    return f"seen <{text}>"


@dataclass(frozen=True)
class Asked:
    """What the model was shown for one step."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]


@dataclass(frozen=True)
class Made:
    """A tool call that the environment was asked for."""

    name: str
    arguments: Mapping[str, Any]


class ScriptedModel:
    """Follows its steps; an exception among them is raised. After the last step it says that it is done."""

    def __init__(self, steps: Steps) -> None:
        self.steps = tuple(steps)
        self.asked: list[Asked] = []

    def step(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelStep:
        """The next step of the script."""
        number = len(self.asked)
        self.asked.append(Asked(tuple(messages), tuple(tools)))
        step = self.steps[number] if number < len(self.steps) else LAST
        if isinstance(step, Exception):
            raise step
        return step

    @property
    def said(self) -> tuple[ModelStep, ...]:
        """The steps that it took, those that failed left out."""
        steps = (*self.steps, *[LAST] * len(self.asked))[: len(self.asked)]
        return tuple(step for step in steps if isinstance(step, ModelStep))


class ScriptedEnvironment:
    """Answers each call with the next of its results; after these, and where that is None, with what ``seen_of`` says of its text.

    The episode's reward is ``reward``, or the last that a result carried; an exception among the results is raised.
    """

    def __init__(
        self, results: Sequence[Result | Exception | None] = (), *, reward: float | None = None, tools: Sequence[Tool] = TOOLS
    ) -> None:
        self.results = tuple(results)
        self.made: list[Made] = []
        self.graded = 0
        self._reward = reward
        self._tools = tuple(tools)

    def messages(self) -> tuple[Message, ...]:
        """The same for every episode."""
        return BEGINNING

    def tools(self) -> tuple[Tool, ...]:
        """What it offers."""
        return self._tools

    def call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """The next result. Raises LookupError for a tool that it does not have."""
        number = len(self.made)
        self.made.append(Made(name, copy.deepcopy(dict(arguments))))
        if name not in {tool.name for tool in self._tools}:
            raise LookupError(f"there is no tool {name}")
        result = self.results[number] if number < len(self.results) else None
        if isinstance(result, Exception):
            raise result
        if result is None:
            result = Result(seen_of(str(arguments.get("text", ""))))
        if result.reward is not None:
            self._reward = result.reward
        return result

    def grade(self) -> float | None:
        """The reward so far."""
        self.graded += 1
        return self._reward
