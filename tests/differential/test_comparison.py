"""What two answers must differ in for the comparison to see it, and what it must not see."""

import copy
import json
from contextlib import ExitStack

import pytest

from pytest_harness.engines.scripted.tokenizer import ChatTokenizer
from pytest_harness.engines.vllm import Serving

from .comparison import Answer, differences, facts, shape
from .corpus import CASES, MODEL, Case
from .engines import Engines, body_of

TOKENIZER = ChatTokenizer.bundled()


def decode(ids):
    return "".join(TOKENIZER.decode_pieces(ids))


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What the scripted engine says to a case, by its name."""
    with ExitStack() as stack:
        nobody = Serving("http://127.0.0.1:9/v1", "", MODEL, tmp_path_factory.mktemp("log"), 0)
        engines = Engines(nobody, stack)
        yield lambda name: engines.ours(CASES[name])


def whole(answer, change):
    """The answer with its document changed."""
    document = json.loads(answer.body)
    change(document)
    return Answer(answer.status, answer.content_type, json.dumps(document))


def streamed(answer, change):
    """The answer with its chunks changed; ``change`` gives the chunks that are sent."""
    data = [block.removeprefix("data: ") for block in answer.body.split("\n\n") if block]
    chunks = change([json.loads(each) for each in data if each != "[DONE]"])
    return Answer(answer.status, answer.content_type, "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n")


def seen(before, after):
    return set(differences(facts(before, decode), facts(after, decode)))


CALL = "a text and a call with ids and logprobs"
SPOILED = {
    "a lost field": (lambda d: d.pop("system_fingerprint"), {"fields"}),
    "a field of another kind": (lambda d: d.update(created="now"), {"fields"}),
    "a field too many": (lambda d: d["choices"][0].update(extra=None), {"fields"}),
    "another id of the prompt": (lambda d: d["prompt_token_ids"].__setitem__(0, 5), {"prompt"}),
    "a prompt that is one id longer": (lambda d: d["prompt_token_ids"].append(5), {"prompt", "contract"}),
    "a lost id": (lambda d: d["choices"][0]["token_ids"].pop(), {"contract"}),
    "a lost logprob": (lambda d: d["choices"][0]["logprobs"]["content"].pop(), {"contract"}),
    "a logprob of another token": (lambda d: d["choices"][0]["logprobs"]["content"][0].update(token="token_id:1"), {"contract"}),
    "a positive logprob": (lambda d: d["choices"][0]["logprobs"]["content"][0].update(logprob=0.5), {"contract"}),
    "wrong usage": (lambda d: d["usage"].update(completion_tokens=1), {"contract"}),
    "another total": (lambda d: d["usage"].update(total_tokens=1), {"contract"}),
    "another end": (lambda d: d["choices"][0].update(finish_reason="stop"), {"choices"}),
    "another text": (lambda d: d["choices"][0]["message"].update(content="No."), {"choices"}),
    "another spelling": (
        lambda d: d["choices"][0]["message"]["tool_calls"][0]["function"].update(arguments='{"command":"echo 42 > answer.txt"}'),
        {"spelling"},
    ),
    "a call without an id": (lambda d: d["choices"][0]["message"]["tool_calls"][0].update(id=""), {"contract"}),
    "no calls": (lambda d: d["choices"][0]["message"].pop("tool_calls"), {"fields", "choices", "spelling"}),
}


@pytest.mark.parametrize("fault", SPOILED)
def test_a_difference_in_a_whole_reply_is_seen_in_its_aspect(answers, fault):
    change, aspects = SPOILED[fault]
    answer = answers(CALL)
    assert seen(answer, whole(answer, change)) == aspects


def first(chunks, **fields):
    return [{**chunks[0], **fields}, *chunks[1:]]


def finish_first(chunks):
    return [chunks[0], chunks[-2], *chunks[1:-2], chunks[-1]]


def merged(chunks):
    """Two chunks of text in one, as an engine may send them under load."""
    one, two = copy.deepcopy(chunks[1:3])
    a, b = one["choices"][0], two["choices"][0]
    a["delta"]["content"] += b["delta"]["content"]
    a["token_ids"] += b["token_ids"]
    a["logprobs"]["content"] += b["logprobs"]["content"]
    return [chunks[0], one, *chunks[3:]]


def without_ids(chunks):
    chunks[1]["choices"][0]["token_ids"] = []
    return chunks


STREAMS = {
    "nothing": (lambda chunks: chunks, set()),
    "two chunks sent as one": (merged, set()),
    "no usage": (lambda chunks: chunks[:-1], {"last", "fields, usage"}),
    "no prompt ids": (lambda chunks: first(chunks, prompt_token_ids=None), {"prompt", "fields, role"}),
    "another identity": (lambda chunks: first(chunks, id="x"), {"one identity"}),
    "no role": (lambda chunks: chunks[1:], {"prompt", "order", "deltas", "fields, role"}),
    "the end before the text": (finish_first, {"order", "contract"}),
    "a chunk without its ids": (without_ids, {"contract", "fields, middle"}),
    "a lost chunk": (lambda chunks: [chunks[0], *chunks[2:]], {"choices", "contract"}),
}


@pytest.mark.parametrize("fault", STREAMS)
def test_a_difference_in_a_stream_is_seen_in_its_aspect(answers, fault):
    change, aspects = STREAMS[fault]
    answer = answers("a text with ids and logprobs, streamed")
    assert seen(answer, streamed(answer, change)) == aspects


def test_a_stream_that_does_not_end_well_is_seen(answers):
    answer = answers("a text with ids and logprobs, streamed")
    cut = Answer(200, answer.content_type, answer.body.removesuffix("data: [DONE]\n\n"))
    assert seen(answer, cut) == {"done"}


def test_a_refusal_of_what_the_other_accepts_is_told_alone(answers):
    assert seen(answers(CALL), answers("temperature 3")) == {"status"}


@pytest.mark.parametrize("name", ["temperature 3", "n 0", "an unknown model", "no messages"])
def test_refusals_differ_in_what_they_blame(answers, name):
    before, after = answers("max_tokens 0"), answers(name)
    assert seen(before, before) == set()
    assert seen(before, after) & {"error param", "status"}


def test_names_of_classes_in_the_blamed_field_are_not_compared():
    def refusal(param):
        return Answer(400, "application/json", json.dumps({"error": {"message": "", "type": "Bad Request", "param": param, "code": 400}}))

    assert seen(refusal("body.messages.0.ChatCompletionUserMessageParam.role"), refusal("body.messages.0.role")) == set()
    assert seen(refusal("body.messages.0.role"), refusal("body.messages.1.role")) == {"error param"}


def test_a_shape_tells_kinds_and_not_values():
    assert shape({"b": [1, 2.0, "x"], "a": None}) == {"a": "null", "b": ["integer", "number", "text"]}
    assert shape([True, [], {}]) == ["flag", [], {}]


def test_the_corpus_is_large_and_its_names_are_its_own():
    assert len(CASES) >= 800
    assert all(name == case.name for name, case in CASES.items())


def test_a_removed_field_is_not_sent_and_what_vllm_gets_more_is():
    body = json.loads(body_of(Case("x", {"model": ..., "n": 1}, CASES[CALL].script), {"structured_outputs": {"choice": ["x"]}}))
    assert body == {"n": 1, "structured_outputs": {"choice": ["x"]}}


def test_the_scripted_engine_meets_the_token_contract_in_every_case(answers):
    broken = {name: told["contract"] for name in CASES if (told := facts(answers(name), decode)).get("contract")}
    assert broken == {}
