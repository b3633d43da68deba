"""Scenarios: a Harbor task plus the script that the engine follows, one TOML file each.

The name of a scenario is the name of its file. ``task`` is the task's folder relative to that file. ``reward`` is the number that the
verifier must give, or "none" where it must give none: an absent key is refused, because nothing said is neither. ``reward_key`` names the
key under which it stands, where the verifier gives several numbers. ``faults`` are what the engine is to do wrong: in
which turn of the script, how often, and how.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_harness.evidence import EngineFault, ScenarioFacts
from pytest_harness.resources import resource
from pytest_harness.textfile import TextFileError, read_text, read_toml

_KEYS = {"title", "task", "reward", "reward_key", "steps", "faults"}
_STEP_KEYS = {"text", "shell", "prints"}
_FAULT_KEYS = {"error": {"turn", "times", "kind", "status", "message", "retry_after"}, "cut": {"turn", "times", "kind", "after"}}
_LONGEST_WAIT = 60
"""Seconds; a rollout that waits longer than this for its engine says nothing more of its harness."""


class ScenarioError(Exception):
    """A scenario that is unknown or cannot be read; the message names the file, the key and what was expected."""


@dataclass(frozen=True)
class ScenarioStep:
    """One turn of the script: text, then shell commands, in parallel if there are several."""

    text: str
    shell: tuple[str, ...]
    prints: tuple[str, ...]
    """For each command what its result must contain; something that the command itself does not say."""


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

    @property
    def instruction(self) -> str:
        """What the agent is asked to do."""
        return _text_of(lambda: read_text(self.task / "instruction.md"))

    def check_task(self) -> None:
        """Raises ScenarioError if the files of its task cannot be read; loading a scenario only looks whether there is a task."""
        _text_of(lambda: read_toml(self.task / "task.toml"))
        _ = self.instruction

    @property
    def script(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The steps as plain (text, commands) pairs."""
        return tuple((step.text, step.shell) for step in self.steps)

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
        )


def _text_of[T](read: Callable[[], T]) -> T:
    try:
        return read()
    except TextFileError as error:
        raise ScenarioError(f"{error}; correct the task") from None


class ScenarioTable:
    """All scenarios by name, in the order of their names."""

    def __init__(self, scenarios: Mapping[str, Scenario]) -> None:
        self._scenarios = dict(sorted(scenarios.items()))

    @classmethod
    def load(cls, *folders: Path) -> ScenarioTable:
        """Read the bundled scenarios, then those of ``folders``; a later one replaces an earlier one of the same name.

        Raises ScenarioError for a file that is not a scenario, and for a folder without any.
        """
        scenarios: dict[str, Scenario] = {}
        for folder in (resource("fixtures", "scenarios"), *folders):
            paths = sorted(folder.glob("*.toml"))
            if not paths:
                raise ScenarioError(f"{folder} has no scenarios; it must be a folder with a .toml file for each")
            scenarios |= {path.stem: _read(path) for path in paths}
        return cls(scenarios)

    def __getitem__(self, name: str) -> Scenario:
        """The scenario of this name. Raises ScenarioError with the nearest names if there is none."""
        try:
            return self._scenarios[name]
        except KeyError:
            near = difflib.get_close_matches(name, self._scenarios)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(self._scenarios)}"
            raise ScenarioError(f"there is no scenario {name!r}; {hint}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._scenarios)

    def __len__(self) -> int:
        return len(self._scenarios)


def _read(path: Path) -> Scenario:
    try:
        document = read_toml(path)
    except TextFileError as error:
        raise ScenarioError(str(error)) from None
    _check_keys(path, "", document, _KEYS)
    for key, kind in (("title", str), ("task", str), ("steps", list)):
        if not isinstance(document.get(key), kind) or not document[key]:
            expected = "a list of tables with at least one" if kind is list else "a string that is not empty"
            raise ScenarioError(f"{path}: {key} must be {expected}, not {document.get(key, 'absent')!r}")
    task = path.parent / document["task"]
    try:
        task = task.resolve()
        is_task = (task / "task.toml").is_file()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a NUL
        is_task = False
    if not is_task:
        raise ScenarioError(f"{path}: task must be the folder of a Harbor task relative to this file, but {task} has no task.toml")
    steps = tuple(_step(path, number, step) for number, step in enumerate(document["steps"], start=1))
    if steps[-1].shell or not steps[-1].text:
        raise ScenarioError(f"{path}: the last of the steps must be text without shell commands, so that the agent ends")
    faults = _faults(path, document, len(steps))
    return Scenario(path.stem, document["title"], task, steps, _reward(path, document), _reward_key(path, document), faults)


def _reward(path: Path, document: Mapping[str, Any]) -> float | None:
    reward = document.get("reward", "absent")
    if reward == "none":
        return None
    if isinstance(reward, int | float) and not isinstance(reward, bool) and math.isfinite(reward):
        return float(reward)
    raise ScenarioError(f'{path}: reward must be a finite number, or "none" where the verifier must give no reward, not {reward!r}')


def _reward_key(path: Path, document: Mapping[str, Any]) -> str | None:
    key = document.get("reward_key")
    if key is None or (isinstance(key, str) and key):
        return key
    raise ScenarioError(f"{path}: reward_key must be a key of the verifier's rewards, a string that is not empty, not {key!r}")


def _step(path: Path, number: int, step: Any) -> ScenarioStep:
    where = f"step {number}: "
    if not isinstance(step, dict):
        raise ScenarioError(f"{path}: {where}must be a table with text and shell, not {step!r}")
    _check_keys(path, where, step, _STEP_KEYS)
    text, shell = step.get("text", ""), step.get("shell", [])
    prints = step.get("prints", [""] * len(shell) if isinstance(shell, list) else [])
    if not isinstance(text, str):
        raise ScenarioError(f"{path}: {where}text must be a string, not {text!r}")
    if not isinstance(shell, list) or not all(isinstance(command, str) and command for command in shell):
        raise ScenarioError(f"{path}: {where}shell must be a list of commands, not {shell!r}")
    if not text and not shell:
        raise ScenarioError(f"{path}: {where}has neither text nor shell; give it one of them")
    if not isinstance(prints, list) or len(prints) != len(shell) or not all(isinstance(each, str) for each in prints):
        raise ScenarioError(f"{path}: {where}prints must be a list of texts, one for each command, not {prints!r}")
    for command, each in zip(shell, prints, strict=True):
        if each and each in command:
            raise ScenarioError(f"{path}: {where}prints {each!r}, which the command itself says; choose what only its result can show")
    return ScenarioStep(text, tuple(shell), tuple(prints))


def _faults(path: Path, document: Mapping[str, Any], steps: int) -> tuple[EngineFault, ...]:
    faults = document.get("faults", [])
    if not isinstance(faults, list):
        raise ScenarioError(f"{path}: faults must be a list of tables, not {faults!r}")
    return tuple(_fault(path, number, fault, steps) for number, fault in enumerate(faults, start=1))


def _fault(path: Path, number: int, fault: Any, steps: int) -> EngineFault:
    where = f"fault {number}: "
    if not isinstance(fault, dict):
        raise ScenarioError(f"{path}: {where}must be a table with turn and kind, not {fault!r}")
    kind = fault.get("kind", "absent")
    if not isinstance(kind, str) or kind not in _FAULT_KEYS:
        raise ScenarioError(f"{path}: {where}kind must be {' or '.join(_FAULT_KEYS)}, not {kind!r}")
    _check_keys(path, where, fault, _FAULT_KEYS[kind])
    required: dict[str, range] = {"turn": range(1, steps + 1)}
    optional: dict[str, range] = {"times": range(1, 10)}
    if kind == "error":
        required["status"] = range(400, 600)
        optional["retry_after"] = range(_LONGEST_WAIT + 1)
        if not isinstance(fault.get("message"), str) or not fault["message"].strip():
            raise ScenarioError(f"{path}: {where}message must be what the engine says, not {fault.get('message', 'absent')!r}")
    else:
        required["after"] = range(1, 1000)
    for name, allowed in {**required, **optional}.items():
        if name in optional and name not in fault:
            continue
        value = fault.get(name, "absent")
        if type(value) is not int or value not in allowed:
            raise ScenarioError(f"{path}: {where}{name} must be a whole number from {allowed[0]} to {allowed[-1]}, not {value!r}")
    return EngineFault(**fault)


def _check_keys(path: Path, where: str, table: Mapping[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(sorted(known))}"
            raise ScenarioError(f"{path}: {where}unknown key {key!r}; {hint}")
