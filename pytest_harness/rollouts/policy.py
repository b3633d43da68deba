"""Which rollouts the bundled policy follows by itself, with no steering: those that it was trained on, by what it was told in them.

A scenario is known by its task and its commands, not by its name: the one in which the engine fails for a moment is the same to a model.
Another version of a harness has another prompt, so it is steered until the policy is trained anew (``fixtures/policy/train.py``).
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from pytest_harness.resources import resource
from pytest_harness.scenarios import Scenario


def follows(harness: str, version: str, scenario: Scenario) -> bool:
    """Whether the policy was taught this scenario with this version of the harness."""
    commands = [list(step) for step in scenario.facts.shell_commands]
    lesson = {"harness": harness, "version": version, "instruction": scenario.instruction.strip(), "commands": commands}
    return lesson in _lessons()


@cache
def _lessons() -> list[dict[str, Any]]:
    lessons: list[dict[str, Any]] = json.loads(resource("fixtures", "policy", "lessons.json").read_text(encoding="utf-8"))
    return lessons
