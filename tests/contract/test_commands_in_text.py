"""Commands that a harness without tools takes from what the model says."""

import json

from pytest_harness.contract import judge_one
from pytest_harness.evidence import Evidence
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs.surgery import choices, edit_delivered, edit_request, with_call, with_manifest

QUOTED = "echo \"a\" && echo 'b'"


def spoken(evidence: Evidence, *, tools: bool = False) -> Evidence:
    """The same rollout with the arguments of its calls in the text, and no tool on offer unless ``tools``."""

    def say(parts: list) -> None:
        for choice in choices(parts):
            message = choice["message"]
            made = message.pop("tool_calls", None) or []
            message["content"] = "\n".join([message["content"] or "", *(call["function"]["arguments"] for call in made)])

    for call in evidence.calls:
        asked = call if tools else edit_request(call, lambda body: body.pop("tools", None))
        evidence = with_call(evidence, edit_delivered(asked, say))
    return evidence


def broken(evidence: Evidence) -> bool:
    return judge_one(evidence, load_catalogue()["SEA-003"]).result == "failed"


def test_a_command_is_found_in_the_text_where_no_tool_is_offered(healthy):
    assert not broken(spoken(healthy.mini()))


def test_a_command_in_the_text_does_not_reach_a_harness_that_offers_tools(healthy):
    assert broken(spoken(healthy.mini(), tools=True))


def test_another_command_in_the_text_is_found(healthy):
    evidence = healthy.mini()
    commands = (("rm -rf elsewhere",), *evidence.manifest.scenario.shell_commands[1:])
    asked = evidence.manifest.scenario.model_copy(update={"shell_commands": commands})
    assert broken(spoken(with_manifest(evidence, scenario=asked)))


def test_a_command_with_quotes_is_found_in_text_that_is_json(healthy):
    evidence = healthy.mini()
    first = evidence.calls[0]

    def ask(parts: list) -> None:
        for choice in choices(parts):
            choice["message"]["tool_calls"][0]["function"]["arguments"] = json.dumps({"command": QUOTED})

    commands = ((QUOTED,), *evidence.manifest.scenario.shell_commands[1:])
    asked = evidence.manifest.scenario.model_copy(update={"shell_commands": commands})
    evidence = with_manifest(with_call(evidence, edit_delivered(first, ask)), scenario=asked)
    assert not broken(spoken(evidence))
