"""What a scenario is: a task, the turns of the model, what the engine and the session do besides, and what may become of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pytest_harness.evidence import EngineFault, ScenarioFacts
from pytest_harness.textfile import TextFileError, read_text, read_toml

MARKERS = ("rollout-alder", "rollout-birch", "rollout-cedar", "rollout-dogwood")
"""What ``{rollout}`` stands for in the script of the first rollout, and of each that runs beside it."""


class ScenarioError(Exception):
    """A scenario that is unknown or cannot be read; the message names the file, the key and what was expected."""


@dataclass(frozen=True)
class ScenarioStep:
    """One turn of the script: reasoning, text, and calls, in parallel if there are several."""

    text: str = ""
    shell: tuple[str, ...] = ()
    prints: tuple[str, ...] = ()
    """For each command what its result must contain; something that the command itself does not say."""
    reasoning: str = ""
    """What the model thinks before it speaks."""
    then: str = ""
    """What it says behind its calls."""
    subagent: bool = False
    """Whether it gives the scenario's subagent its task, after its commands."""
    files: tuple[tuple[str, str], ...] = ()
    """Path and content of files that a harness takes from the text."""


@dataclass(frozen=True)
class Subagent:
    """What a subagent is asked, and the turns of its script."""

    prompt: str
    steps: tuple[ScenarioStep, ...]


@dataclass(frozen=True)
class Scenario:
    """One scenario. ``task`` is the folder of the Harbor task; ``reward`` is None where the verifier must give none."""

    name: str
    title: str
    task: Path
    steps: tuple[ScenarioStep, ...]
    reward: float | None
    reward_key: str | None = None
    faults: tuple[EngineFault, ...] = ()
    subagent: Subagent | None = None
    turns: tuple[int, int] | None = None
    """How many turns the agent takes at least and at most, where it need not be one for each step."""
    may_fail: bool = False
    """Whether the harness may end with an error."""
    budget: int | None = None
    """How many calls the session lets through; None is no limit."""
    needs: str | None = None
    """What the row of a harness must have for the scenario to make sense: a table, or ``tools``."""
    marker: str | None = None
    """What only the script of this one of several rollouts says; None for one that runs alone."""
    companions: tuple[tuple[ScenarioStep, ...], ...] = ()
    """The scripts of the rollouts that run beside it at the same time."""

    @property
    def rollouts(self) -> tuple[Scenario, ...]:
        """It, and what each rollout beside it plays."""
        others = zip(MARKERS[1:], self.companions, strict=False)
        return (self, *(replace(self, marker=marker, steps=steps, companions=()) for marker, steps in others))

    @property
    def instruction(self) -> str:
        """What the agent is asked to do."""
        return _text_of(lambda: read_text(self.task / "instruction.md"))

    def check_task(self) -> None:
        """Raises ScenarioError if the files of its task cannot be read; loading a scenario only looks whether there is a task."""
        _text_of(lambda: read_toml(self.task / "task.toml"))
        _ = self.instruction

    @property
    def script(self) -> dict[str, Any]:
        """All that the model says, as plain values."""
        return {"steps": [asdict(step) for step in self.steps], "subagent": None if self.subagent is None else asdict(self.subagent)}

    @property
    def facts(self) -> ScenarioFacts:
        """The scenario as the evidence records it."""
        return ScenarioFacts(
            name=self.name,
            steps=len(self.steps),
            shell_commands=tuple(step.shell for step in self.steps),
            prints=tuple(step.prints for step in self.steps),
            reward=self.reward,
            reward_key=self.reward_key,
            faults=self.faults,
            turns=self.turns,
            may_fail=self.may_fail,
            splits=any(step.reasoning or step.then for step in self.steps),
            marker=self.marker,
        )


def _text_of[T](read: Callable[[], T]) -> T:
    try:
        return read()
    except TextFileError as error:
        raise ScenarioError(f"{error}; correct the task") from None
