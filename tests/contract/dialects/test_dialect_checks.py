"""What the checks make of the other dialects: vendors' rules on where results stand, signatures, and a harness's words that were marked."""

import dataclasses
import json

import pytest

from pytest_harness.contract import check_of
from pytest_harness.contract.dialects import own_results, pairs
from pytest_harness.contract.model import NotExercised
from pytest_harness.evidence import Message, find_evidence, read_evidence
from pytest_harness.resources import resource
from pytest_harness.saboteurs.surgery import TRAJECTORY, edit_file, edit_replied, tool_calls


def recorded(harness):
    (folder,) = find_evidence(resource("fixtures", "evidence", harness, "local", "scripted", "parallel_calls"))
    return read_evidence(folder)


def with_bodies(evidence, **bodies):
    """The evidence with other bodies in its calls, each given as a list with None where it stays."""
    calls = []
    for place, call in enumerate(evidence.calls):
        new = {name: values[place] for name, values in bodies.items() if values[place] is not None}
        calls.append(call.model_copy(update={name: getattr(call, name).model_copy(update={"body": text}) for name, text in new.items()}))
    return dataclasses.replace(evidence, calls=tuple(calls))


def stream(*events):
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def block(kind, **fields):
    return {"type": kind, **fields}


USE = block("tool_use", id="a", name="bash", input={})
RESULT = block("tool_result", tool_use_id="a", content="x")
TEXT = block("text", text="Well.")


@pytest.mark.parametrize(
    ("turns", "wrong"),
    [
        ([("assistant", [USE]), ("user", [RESULT, TEXT])], 0),
        ([("assistant", [USE]), ("system", [TEXT]), ("user", [RESULT])], 0),
        ([("assistant", [USE]), ("user", [RESULT]), ("system", [TEXT]), ("user", [TEXT])], 0),
        ([("assistant", [USE]), ("user", [TEXT, RESULT])], 1),
        ([("assistant", [USE]), ("user", [TEXT]), ("user", [RESULT])], 1),
        ([("assistant", [TEXT]), ("user", [RESULT])], 1),
        ([("assistant", [USE, {**USE, "id": "b"}]), ("user", [RESULT]), ("user", [{**RESULT, "tool_use_id": "b"}])], 1),
    ],
)
def test_results_of_messages_stand_together_right_after_their_calls_and_first(turns, wrong):
    body = {"messages": [{"role": role, "content": content} for role, content in turns]}
    assert len(list(pairs.messages_results(body))) == wrong


CALL = block("function_call", call_id="a", name="bash", arguments="{}")
OUTPUT = block("function_call_output", call_id="a", output="x")
REASONING = block("reasoning", id="rs_1", summary=[])
SAID = {"role": "assistant", "content": "Well."}


@pytest.mark.parametrize(
    ("items", "wrong"),
    [
        ([CALL, OUTPUT], 0),
        ([REASONING, CALL, OUTPUT, REASONING, SAID], 0),
        ([REASONING, REASONING, CALL, OUTPUT], 0),
        ([OUTPUT, CALL], 1),
        ([CALL, {**OUTPUT, "type": "custom_tool_call_output"}], 1),
        ([{**CALL, "type": "custom_tool_call"}, OUTPUT], 1),
        ([REASONING, {"role": "user", "content": "Go on."}], 1),
        ([CALL, OUTPUT, REASONING], 1),
    ],
)
def test_items_of_responses_stand_with_their_own(items, wrong):
    assert len(list(pairs.responses_items({"input": items}))) == wrong


def model(*names):
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in names]}


def answers(*names):
    return {"role": "user", "parts": [{"function_response": {"name": name, "response": {}}} for name in names]}


@pytest.mark.parametrize(
    ("contents", "wrong"),
    [
        ([model("a", "b"), answers("a", "b")], 0),
        ([model("a"), model("b"), answers("b"), answers("a")], 0),
        ([model("a"), answers("a"), {"role": "user", "parts": [{"text": "Go on."}]}], 0),
        ([model("a", "b"), answers("a")], 1),
        ([model("a"), answers("a", "a")], 1),
        ([model("a"), answers("b")], 1),
        ([model("not a name"), answers("not a name")], 2),
    ],
)
def test_responses_of_gemini_are_as_many_as_the_calls_and_named_as_they_are(contents, wrong):
    assert len(list(pairs.gemini_parts({"contents": contents}))) == wrong


THOUGHT = [
    {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm, "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "well."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "signed"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "a", "name": "bash", "input": {}}},
    {"type": "content_block_stop", "index": 1},
]


@pytest.mark.parametrize(
    ("thinking", "changed", "lost"),
    [
        ({"thinking": "Hm, well.", "signature": "signed"}, 0, 0),
        ({"thinking": "Hm, no.", "signature": "signed"}, 1, 0),
        ({"thinking": "Hm, well.", "signature": "forged"}, None, 1),
        (None, None, 1),
    ],
)
def test_a_thought_comes_back_under_its_signature(thinking, changed, lost):
    history = {"role": "assistant", "content": [*([] if thinking is None else [block("thinking", **thinking)]), USE]}
    request = json.dumps({"messages": [history, {"role": "user", "content": [RESULT]}]})
    evidence = with_bodies(recorded("claude-code"), delivered=[stream(*THOUGHT), None], received=[None, request])
    assert len(list(check_of("DIA-002")(evidence))) == lost
    if changed is None:
        with pytest.raises(NotExercised):
            list(check_of("DIA-001")(evidence))
    else:
        assert len(list(check_of("DIA-001")(evidence))) == changed


def test_a_result_that_was_marked_as_an_error_is_the_one_that_the_log_shows():
    evidence = recorded("claude-code")
    last = evidence.calls[-1]
    body, chat = json.loads(last.received.body), json.loads(last.forwarded.body)
    results = [part for turn in body["messages"] if isinstance(turn["content"], list) for part in turn["content"] if "tool_use_id" in part]
    results[0]["is_error"] = True
    told = next(message for message in chat["messages"] if message["role"] == "tool")
    told["content"] = f"[tool error] {told['content']}"
    path = "trial/agent/trajectory.json"
    log = json.loads(evidence.files[path])
    log["steps"][1]["observation"]["results"][0]["content"] = f"{results[0]['content']}\n\n[error] tool reported failure"
    files = {**evidence.files, path: json.dumps(log)}
    changes = {"received": Message(headers={}, body=json.dumps(body)), "forwarded": Message(headers={}, body=json.dumps(chat))}
    changed = dataclasses.replace(evidence, calls=(*evidence.calls[:-1], last.model_copy(update=changes)), files=files)
    assert dict(own_results(changed.calls[-1]))[results[0]["tool_use_id"]] == results[0]["content"]
    assert list(check_of("ATF-023")(changed)) == []
    assert list(check_of("TOK-008")(changed)) == []


@pytest.mark.parametrize("logged", [False, True])
def test_a_call_that_gemini_cannot_hold_was_given_to_no_harness_and_is_in_no_log(logged):
    """Its reply ends with MALFORMED_FUNCTION_CALL; a log that tells the call all the same tells what nobody made."""
    evidence = recorded("gemini-cli")
    first = edit_replied(evidence.calls[0], lambda parts: [each["function"].update(arguments="{") for each in tool_calls(parts)])
    events = [json.loads(line.removeprefix("data: ")) for line in first.delivered.body.splitlines() if line]
    for candidate in (candidate for event in events for candidate in event["candidates"]):
        candidate["content"]["parts"] = [part for part in candidate["content"]["parts"] if "functionCall" not in part]
        candidate.update({"finishReason": "MALFORMED_FUNCTION_CALL"} if "finishReason" in candidate else {})
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    first = first.model_copy(update={"delivered": first.delivered.model_copy(update={"body": body})})
    evidence = dataclasses.replace(evidence, calls=(first, *evidence.calls[1:]))
    if logged:
        (fault,) = check_of("ATF-004")(evidence)
        assert (fault.expected, fault.seen) == ("0 tool calls, as delivered", "2")
    else:
        silent = edit_file(evidence, TRAJECTORY, lambda document: document["steps"][1].pop("tool_calls"))
        with pytest.raises(NotExercised):
            list(check_of("ATF-004")(silent))
