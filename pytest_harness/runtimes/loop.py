"""A small white-box runtime: the suite's own subject, and what a loop has to take care of, in one page.

No call stays without an answer: what a limit cuts, and what stands behind the call that ended the episode, is answered with the reason
that it was not run. Whatever the model writes is answered to the model; only a model or an environment that breaks ends the episode.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_harness.runtimes.adapter import (
    Ended,
    Environment,
    Episode,
    Limits,
    Message,
    Model,
    ModelStep,
    Result,
    Tool,
    ToolCall,
    TracedCall,
)

RESERVED = frozenset({"reset", "step", "state", "close"})
"""Names by which an orchestrator drives an environment; no agent may have them."""


@dataclass
class Running:
    """An episode under way."""

    environment: Environment
    limits: Limits
    messages: list[Message]
    tools: tuple[Tool, ...]
    steps: list[ModelStep] = field(default_factory=list)
    trace: list[TracedCall] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    refused: int = 0
    ended: Ended | None = None

    @property
    def calls_left(self) -> float:
        """How many calls may still be made."""
        return math.inf if self.limits.max_calls is None else self.limits.max_calls - len(self.trace)


class Loop:
    """The runtime. It keeps nothing between episodes."""

    def run(self, model: Model, environment: Environment, limits: Limits) -> Episode:
        """Run one episode."""
        running = self.begin(environment, limits)
        try:
            while running.ended is None:
                if len(running.steps) >= limits.max_turns:
                    running.ended = "truncated"
                else:
                    self.turn(running, model)
            reward = self.reward(running)
        except Exception as error:  # noqa: BLE001 - whatever breaks, the episode is told as one that failed
            running.ended = "failed"
            return self.kept(running, None, f"{type(error).__name__}: {error}")
        return self.kept(running, reward)

    def begin(self, environment: Environment, limits: Limits) -> Running:
        """A new episode, its tools without the names that are reserved."""
        tools = tuple(tool for tool in environment.tools() if tool.name not in RESERVED)
        return Running(environment, limits, list(environment.messages()), tools)

    def turn(self, running: Running, model: Model) -> None:
        """One step of the model and all that follows from it."""
        step = model.step(tuple(running.messages), running.tools)
        running.steps.append(step)
        calls = self.identified(running, step.calls)
        running.messages.append(Message("assistant", step.text, calls))
        if not calls:
            running.ended = "completed"
        for number, call in enumerate(calls):
            running.messages.append(Message("tool", self.answer(running, call, number), call_id=call.id))

    def identified(self, running: Running, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls, each with an id that no other call of the episode has."""
        identified = []
        for call in calls:
            candidates = itertools.chain([call.id], (f"call-{number}" for number in itertools.count(len(running.ids) + 1)))
            id_ = next(each for each in candidates if each and each not in running.ids)
            running.ids.add(id_)
            identified.append(replace(call, id=id_))
        return tuple(identified)

    def answer(self, running: Running, call: ToolCall, number: int) -> str:
        """What the model is told of its call: the result, or why there is none."""
        if running.ended == "completed":
            return self.refusal(running, "the episode had ended before it")
        if running.limits.max_calls_per_turn is not None and number >= running.limits.max_calls_per_turn:
            return self.refusal(running, f"a turn may make {running.limits.max_calls_per_turn} calls")
        if running.calls_left <= 0:
            running.ended = "truncated"
            return self.refusal(running, f"an episode may make {running.limits.max_calls} calls")
        names = [tool.name for tool in running.tools]
        if call.name not in names:
            return self.refusal(running, f"there is no tool {call.name}; the tools are {', '.join(names)}")
        arguments = self.arguments(call)
        if arguments is None:
            return self.refusal(running, "the arguments are no JSON object")
        return self.make(running, call.name, arguments)

    def make(self, running: Running, name: str, arguments: Mapping[str, Any]) -> str:
        """Make the call; a tool that fails is told."""
        running.trace.append(TracedCall(name, arguments))
        try:
            result = running.environment.call(name, arguments)
        except Exception as error:  # noqa: BLE001 - a tool may raise anything
            return f"The tool failed: {type(error).__name__}: {error}"
        if result.done:
            running.ended = "completed"
        return self.told(result)

    def told(self, result: Result) -> str:
        """A result as the model reads it."""
        if result.error is not None:
            return f"The tool failed: {result.error}"
        return result.data if isinstance(result.data, str) else json.dumps(result.data)

    def refusal(self, running: Running, reason: str) -> str:
        """The answer to a call that is not made."""
        running.refused += 1
        return f"This call was not run: {reason}."

    def arguments(self, call: ToolCall) -> Mapping[str, Any] | None:
        """The arguments as an object; None if they are none. Nothing is repaired."""
        try:
            arguments = json.loads(call.arguments or "{}")
        except ValueError:
            return None
        return arguments if isinstance(arguments, dict) else None

    def reward(self, running: Running) -> float | None:
        """The environment's word, and nothing else. Raises ValueError for what is no finite number."""
        reward = running.environment.grade()
        if reward is not None and not math.isfinite(reward):
            raise ValueError(f"the environment's reward is {reward}")
        return reward

    def kept(self, running: Running, reward: float | None, error: str = "") -> Episode:
        """The record of the episode, the same fields however it ended."""
        return Episode(
            messages=tuple(running.messages),
            ended=running.ended or "failed",
            reward=reward,
            metrics={"turns": len(running.steps), "calls": len(running.trace), "refused_calls": running.refused},
            trace=tuple(running.trace),
            prompt_ids=tuple(step.prompt_ids for step in running.steps),
            sampled_ids=tuple(step.sampled_ids for step in running.steps),
            logprobs=tuple(step.logprobs for step in running.steps),
            error=error,
        )
