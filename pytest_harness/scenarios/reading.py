"""Reads a scenario's file. Whatever is wrong with it is said here: the file, the key, what was found and what was expected.

The name of a scenario is the name of its file. ``task`` is the task's folder relative to that file. ``reward`` is the number that the
verifier must give, or "none" where it must give none: an absent key is refused, because nothing said is neither. ``reward_key`` names the
key under which it stands, where the verifier gives several numbers. What else there is, is in the README.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_harness.evidence import EngineFault
from pytest_harness.scenarios.model import MARKERS, Scenario, ScenarioError, ScenarioStep, Subagent
from pytest_harness.textfile import TextFileError, read_toml

_KEYS = {"title", "task", "reward", "reward_key", "steps", "faults", "subagent", "turns", "may_fail", "budget", "needs", "companions"}
_STEP_KEYS = {"text", "shell", "prints", "reasoning", "then", "calls", "subagent", "files", "repeat"}
_FAULT_KEYS = {
    "error": {"turn", "times", "kind", "status", "message", "retry_after"},
    "overflow": {"turn", "times", "kind"},
    "cut": {"turn", "times", "kind", "after"},
    "length": {"turn", "times", "kind", "after"},
    "empty": {"turn", "times", "kind"},
    "malformed": {"turn", "times", "kind"},
    "unknown_tool": {"turn", "times", "kind"},
}
NEEDS = ("compaction", "edit", "subagent", "tools")
"""What of a seam's row a scenario may need: a table, or the tool that runs shell commands."""
_LONGEST_WAIT = 60
"""Seconds; a rollout that waits longer than this for its engine says nothing more of its harness."""
_MOST_REPEATS = 99
_NUMBER = "{n}"
_ROLLOUT = "{rollout}"


def read_scenario(path: Path) -> Scenario:
    """The scenario of a file. Raises ScenarioError."""
    try:
        document = read_toml(path)
    except TextFileError as error:
        raise ScenarioError(str(error)) from None
    _check_keys(f"{path}: ", document, _KEYS)
    for key in ("title", "task"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise ScenarioError(f"{path}: {key} must be a string that is not empty, not {document.get(key, 'absent')!r}")
    steps, *companions = _scripts(path, document)
    subagent = _subagent(path, document)
    if (subagent is None) != (not any(step.subagent for step in steps)):
        raise ScenarioError(f"{path}: a table subagent and a step with subagent = true belong together; give both or neither")
    return Scenario(
        name=path.stem,
        title=document["title"],
        task=_task(path, document["task"]),
        steps=steps,
        reward=_reward(path, document),
        reward_key=_reward_key(path, document),
        faults=_faults(path, document, len(steps)),
        subagent=subagent,
        turns=_turns(path, document),
        may_fail=_flag(f"{path}: ", document, "may_fail"),
        budget=_budget(path, document),
        needs=_needs(path, document),
        marker=MARKERS[0] if companions else None,
        companions=tuple(companions),
    )


def _task(path: Path, name: str) -> Path:
    task = path.parent / name
    try:
        task = task.resolve()
        is_task = (task / "task.toml").is_file()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a NUL
        is_task = False
    if not is_task:
        raise ScenarioError(f"{path}: task must be the folder of a Harbor task relative to this file, but {task} has no task.toml")
    return task


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


def _turns(path: Path, document: Mapping[str, Any]) -> tuple[int, int] | None:
    turns = document.get("turns")
    if turns is None:
        return None
    if isinstance(turns, list) and [type(each) for each in turns] == [int, int] and 1 <= turns[0] <= turns[1]:
        return turns[0], turns[1]
    raise ScenarioError(f"{path}: turns must be the least and the greatest number of turns, such as [1, 3], not {turns!r}")


def _budget(path: Path, document: Mapping[str, Any]) -> int | None:
    budget = document.get("budget")
    if budget is None or (type(budget) is int and budget > 0):
        return budget
    raise ScenarioError(f"{path}: budget must be a number of calls from 1 on, not {budget!r}")


def _needs(path: Path, document: Mapping[str, Any]) -> str | None:
    needs = document.get("needs")
    if needs is None or needs in NEEDS:
        return needs
    raise ScenarioError(f"{path}: needs must be {' or '.join(NEEDS)}, not {needs!r}")


def _flag(where: str, table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise ScenarioError(f"{where}{key} must be true or false, not {value!r}")
    return value


# --- the script ---------------------------------------------------------------------------------------------------------------------------


def _scripts(path: Path, document: Mapping[str, Any]) -> list[tuple[ScenarioStep, ...]]:
    """The script of the rollout, and of each that runs beside it."""
    where, written = f"{path}: ", document.get("steps")
    if "companions" not in document:
        return [_steps(where, document)]
    companions = document["companions"]
    if type(companions) is not int or not 1 <= companions < len(MARKERS):
        raise ScenarioError(f"{where}companions must be a whole number from 1 to {len(MARKERS) - 1}, not {companions!r}")
    if _replaced(written, _ROLLOUT, "") == written:
        raise ScenarioError(
            f"{where}companions needs a step that says {_ROLLOUT}, which is another word in each rollout and tells them apart"
        )
    return [_steps(where, {"steps": _replaced(written, _ROLLOUT, marker)}) for marker in MARKERS[: companions + 1]]


def _steps(where: str, table: Mapping[str, Any]) -> tuple[ScenarioStep, ...]:
    found = table.get("steps")
    if not isinstance(found, list) or not found:
        raise ScenarioError(f"{where}steps must be a list of tables with at least one, not {table.get('steps', 'absent')!r}")
    steps = tuple(step for number, each in enumerate(found, start=1) for step in _repeated(f"{where}step {number}: ", each))
    last = steps[-1]
    if last.shell or last.subagent or not last.text:
        raise ScenarioError(f"{where}the last of the steps must be text without shell commands or a subagent, so that the agent ends")
    return steps


def _subagent(path: Path, document: Mapping[str, Any]) -> Subagent | None:
    if "subagent" not in document:
        return None
    where, table = f"{path}: subagent: ", document["subagent"]
    if not isinstance(table, dict):
        raise ScenarioError(f"{where}must be a table with prompt and steps, not {table!r}")
    _check_keys(where, table, {"prompt", "steps"})
    prompt, steps = table.get("prompt", "absent"), _steps(where, table)
    if not isinstance(prompt, str) or not prompt.strip():
        raise ScenarioError(f"{where}prompt must be what the subagent is asked, not {prompt!r}")
    if any(step.subagent for step in steps):
        raise ScenarioError(f"{where}a step of it has a subagent of its own; leave it out")
    return Subagent(prompt, steps)


def _repeated(where: str, step: Any) -> Iterator[ScenarioStep]:
    """The step, or as many as ``repeat`` says, each with its number, in two digits, for ``{n}``."""
    if not isinstance(step, dict):
        raise ScenarioError(f"{where}must be a table with text and shell, not {step!r}")
    _check_keys(where, step, _STEP_KEYS)
    repeat = step.get("repeat")
    if repeat is None:
        yield _step(where, step)
        return
    if type(repeat) is not int or not 1 <= repeat <= _MOST_REPEATS:
        raise ScenarioError(f"{where}repeat must be a whole number from 1 to {_MOST_REPEATS}, not {repeat!r}")
    for number in range(1, repeat + 1):
        yield _step(where, _replaced(step, _NUMBER, f"{number:02}"))


def _replaced(value: Any, placeholder: str, text: str) -> Any:
    if isinstance(value, str):
        return value.replace(placeholder, text)
    if isinstance(value, list):
        return [_replaced(each, placeholder, text) for each in value]
    return {key: _replaced(each, placeholder, text) for key, each in value.items()} if isinstance(value, dict) else value


def _step(where: str, step: Mapping[str, Any]) -> ScenarioStep:
    texts = {key: step.get(key, "") for key in ("text", "reasoning", "then")}
    shell = step.get("shell", [])
    prints = step.get("prints", [""] * len(shell) if isinstance(shell, list) else [])
    for key, text in texts.items():
        if not isinstance(text, str):
            raise ScenarioError(f"{where}{key} must be a string, not {text!r}")
    if not isinstance(shell, list) or not all(isinstance(command, str) and command for command in shell):
        raise ScenarioError(f"{where}shell must be a list of commands, not {shell!r}")
    subagent, files = _flag(where, step, "subagent"), _files(where, step.get("files", {}))
    called = bool(shell) or subagent
    if not texts["text"] and not called and not files:
        raise ScenarioError(f"{where}has neither text nor shell; give it one of them")
    if texts["then"] and not called:
        raise ScenarioError(f"{where}has something to say behind its calls, and no call; say it as text")
    if not isinstance(prints, list) or len(prints) != len(shell) or not all(isinstance(each, str) for each in prints):
        raise ScenarioError(f"{where}prints must be a list of texts, one for each command, not {prints!r}")
    for command, each in zip(shell, prints, strict=True):
        if each and each in command:
            raise ScenarioError(f"{where}prints {each!r}, which the command itself says; choose what only its result can show")
    return ScenarioStep(shell=tuple(shell), prints=tuple(prints), subagent=subagent, files=files, **texts)


def _files(where: str, files: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(files, dict) or not all(path and isinstance(content, str) for path, content in files.items()):
        raise ScenarioError(f"{where}files must be a table of paths, each with the content of the file, not {files!r}")
    return tuple(files.items())


# --- what the engine does wrong -----------------------------------------------------------------------------------------------------------


def _faults(path: Path, document: Mapping[str, Any], steps: int) -> tuple[EngineFault, ...]:
    faults = document.get("faults", [])
    if not isinstance(faults, list):
        raise ScenarioError(f"{path}: faults must be a list of tables, not {faults!r}")
    return tuple(_fault(path, number, fault, steps) for number, fault in enumerate(faults, start=1))


def _fault(path: Path, number: int, fault: Any, steps: int) -> EngineFault:
    where = f"{path}: fault {number}: "
    if not isinstance(fault, dict):
        raise ScenarioError(f"{where}must be a table with turn and kind, not {fault!r}")
    kind = fault.get("kind", "absent")
    if not isinstance(kind, str) or kind not in _FAULT_KEYS:
        raise ScenarioError(f"{where}kind must be {' or '.join(_FAULT_KEYS)}, not {kind!r}")
    _check_keys(where, fault, _FAULT_KEYS[kind])
    required: dict[str, range] = {"turn": range(1, steps + 1)}
    optional: dict[str, range] = {"times": range(1, 10)}
    if kind == "error":
        required["status"] = range(400, 600)
        optional["retry_after"] = range(_LONGEST_WAIT + 1)
        if not isinstance(fault.get("message"), str) or not fault["message"].strip():
            raise ScenarioError(f"{where}message must be what the engine says, not {fault.get('message', 'absent')!r}")
    if "after" in _FAULT_KEYS[kind]:
        required["after"] = range(1, 1000)
    for name, allowed in {**required, **optional}.items():
        if name in optional and name not in fault:
            continue
        value = fault.get(name, "absent")
        if type(value) is not int or value not in allowed:
            raise ScenarioError(f"{where}{name} must be a whole number from {allowed[0]} to {allowed[-1]}, not {value!r}")
    return EngineFault(**fault)


def _check_keys(where: str, table: Mapping[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(sorted(known))}"
            raise ScenarioError(f"{where}unknown key {key!r}; {hint}")
