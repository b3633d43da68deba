"""The steps of a scenario in the words of a harness that takes commands or files from what the model says, not from calls of a tool.

To the engine such a scenario is one of text alone: it is told to a harness that offers tools as to one that offers none.
"""

from __future__ import annotations

import json
from dataclasses import replace

from pytest_harness.evidence import ScenarioFacts
from pytest_harness.scenarios import Scenario, ScenarioStep
from pytest_harness.seams import Finish, Seam
from pytest_harness.seams.placeholders import fill


def worded(scenario: Scenario, seam: Seam) -> Scenario:
    """The scenario as it is played to this harness: itself, where the harness has a tool to call and is content with one end.

    A step of several commands or files becomes as many texts, one below the other.
    """
    template = seam.shell.text if seam.shell else None
    steps = scenario.steps if seam.edit is None else tuple(_written(step, seam.edit.text) for step in scenario.steps)
    steps = steps if template is None else tuple(_spoken(step, step.shell, template) for step in steps)
    steps = (*steps[:-1], *_endings(steps[-1], seam.finish, template))
    return scenario if steps == scenario.steps else replace(scenario, steps=steps)


def worded_facts(scenario: Scenario, seam: Seam) -> ScenarioFacts:
    """The scenario as the evidence records it: what is asked of the harness, in as many turns as it takes to play."""
    facts, more = scenario.facts, seam.finish.times - 1
    turns = None if facts.turns is None else (facts.turns[0], facts.turns[1] + more)
    return facts.model_copy(update={"steps": facts.steps + more, "turns": turns})


def _written(step: ScenarioStep, template: str) -> ScenarioStep:
    texts = [_filled(template, text=step.text, path=path, content=content) for path, content in step.files] or [step.text]
    return replace(step, text="\n\n".join(texts), files=())


def _spoken(step: ScenarioStep, commands: tuple[str, ...], template: str) -> ScenarioStep:
    texts = [_filled(template, text=step.text, command=command) for command in commands] or [step.text]
    return replace(step, text="\n\n".join(texts), shell=(), prints=())


def _endings(last: ScenarioStep, finish: Finish, template: str | None) -> tuple[ScenarioStep, ...]:
    if finish.text is not None:
        last = replace(last, text=_filled(finish.text, text=last.text))
    elif finish.command is not None and template is not None:
        last = _spoken(last, (finish.command,), template)
    return (last,) * finish.times


def _filled(template: str, **values: str) -> str:
    """Each value goes in as it is, or as a part of a JSON string."""
    quoted = {f"{name}_in_json": json.dumps(value, ensure_ascii=False)[1:-1] for name, value in values.items()}
    return str(fill(template, {**values, **quoted}))
