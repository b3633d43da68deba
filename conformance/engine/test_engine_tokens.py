"""TOK: the ids of prompt and sample are there, whole, and those of the text."""

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from pytest_harness.endpoint.abilities import TOOLS, agreed, forced
from pytest_harness.endpoint.asking import PROMPT
from pytest_harness.session.case_marks import requirement
from pytest_harness.session.wire_marks import both_modes
from pytest_harness.wire.outcome import NotExercised, expect, same

MOST_ID = 2**31
SPECIAL = re.compile(r"<[|｜][^<>]{1,40}[|｜]>|</?s>|<(?:eos|bos|end_of_turn|start_of_turn)>")
"""How the templates of many models write the tokens that are no text."""
THOUGHT = "<think>\nA pear is a fruit.\n</think>\n\nThe pear is ripe."
PARALLEL = 8


@requirement("TOK-201")
@both_modes
def test_a_reply_has_the_ids_of_its_prompt_and_of_what_was_sampled(case, streamed):
    said = case.ask(case.can.text(), streamed=streamed)
    expect(said.prompt_ids, "the ids of the prompt (prompt_token_ids)", said.prompt_ids)
    expect(said.only.ids, "the ids that were sampled (token_ids)", said.only.ids)


@requirement("TOK-202")
@both_modes
def test_the_tokens_of_a_tool_call_have_their_ids(case, streamed):
    said = case.ask(case.can.calling(), streamed=streamed)
    expect(said.only.calls, "a tool call", said.only.content)
    ids = case.ids(said.only)
    same(len(ids), (said.usage or {}).get("completion_tokens"), "as many ids as were sampled")
    text = case.asking.decoded(ids)
    lost = [] if text is None else [call.name for call in said.only.calls if call.name not in text]
    same(lost, [], "calls whose names are not among what the ids stand for")


@requirement("TOK-203")
@both_modes
def test_the_tokens_of_reasoning_have_their_ids(case, streamed):
    way = forced(THOUGHT) if case.can.steers else {"temperature": 0.0, "max_tokens": 512}
    said = case.ask(streamed=streamed, **way)
    if not said.only.reasoning:
        raise NotExercised("the engine tells no reasoning apart; vLLM does with --reasoning-parser")
    ids = case.ids(said.only)
    same(len(ids), (said.usage or {}).get("completion_tokens"), "as many ids as were sampled")
    text = case.decoded(ids)
    expect(said.only.reasoning.strip()[:20] in text, "ids of the reasoning too", text)


@requirement("TOK-204")
@both_modes
@pytest.mark.parametrize("kind", ["text", "call"])
def test_every_id_is_a_whole_number(case, kind, streamed):
    said = case.ask(case.of(kind), streamed=streamed)
    wrong = [each for each in (*case.prompt(said), *case.ids(said.only)) if type(each) is not int or not 0 <= each < MOST_ID]
    same(wrong, [], "ids that are no integers from 0 on")


def plain(text):
    return SPECIAL.sub("", text).replace("\N{REPLACEMENT CHARACTER}", "").strip()


@requirement("TOK-205")
@both_modes
def test_the_sampled_ids_decode_to_the_text(case, streamed):
    way = case.can.text()
    said = case.ask(way, streamed=streamed)
    text = case.decoded(case.ids(said.only))
    if said.only.reasoning:
        raise NotExercised("the model reasons first, and its marks are no part of what is told")
    if way.text is not None:
        same(said.only.content, way.text, "the text that the engine was made to say")
    same(plain(text), plain(said.only.content), "what the ids stand for, less special tokens")


@requirement("TOK-205")
@both_modes
def test_the_sampled_ids_decode_to_the_tool_call(case, streamed):
    said = case.ask(case.can.calling(), streamed=streamed)
    text = case.decoded(case.ids(said.only))
    for call in said.only.calls:
        words = [word for word in re.findall(r"[A-Za-z]{3,}", call.arguments) if word not in text]
        same(words, [], "words of the arguments for which there are no ids")


@requirement("TOK-206")
@pytest.mark.parametrize("tools", [None, TOOLS], ids=["plain", "tools"])
def test_the_ids_of_the_prompt_are_those_of_the_template(case, tools):
    if tools is not None and case.can.refusal is not None:
        raise NotExercised(case.can.refusal)
    messages = [{"role": "system", "content": "You work in a shell."}, {"role": "user", "content": PROMPT}]
    ids = case.asking.tokenized(messages, tools)
    if ids is None:
        raise NotExercised("the engine has no /tokenize that takes a conversation")
    said = case.ask(messages=messages, max_tokens=1, tools=tools)
    same(case.prompt(said), ids, "the ids of the prompt")


def conversation(case, kind):
    """Two requests of one conversation, the second with what was said to the first, unchanged; and both replies."""
    start = {"messages": [{"role": "user", "content": PROMPT}], **case.of(kind).fields}
    first = case.ask(**start)
    turn = first.only
    if turn.finish == "length" or (kind == "text" and turn.reasoning):
        raise NotExercised("the first turn was cut, or has reasoning that many templates leave out after a question")
    if kind == "text":
        more = [{"role": "user", "content": "And a plum?"}]
    else:
        more = [{"role": "tool", "tool_call_id": call.id, "content": f"result {number}"} for number, call in enumerate(turn.calls)]
        expect(turn.calls, "a tool call", turn.content)
        if not all(isinstance(call.id, str) for call in turn.calls):
            raise NotExercised("a call without an id cannot be answered")
    messages = [*start["messages"], turn.message(), *more]
    return first, case.ask(messages=messages, tools=start.get("tools"), max_tokens=1)


@requirement("TOK-207")
@pytest.mark.parametrize("kind", ["text", "call"])
def test_the_template_only_appends_to_a_turn_that_comes_back_unchanged(case, kind):
    first, second = conversation(case, kind)
    before, after = case.prompt(first), case.prompt(second)
    same(after[: len(before)], before, "the beginning of the next prompt")
    so_far = case.decoded(before + case.ids(first.only))
    text = case.decoded(after)
    same_to = agreed(so_far, text)
    expect(same_to == len(so_far), f"a next prompt that goes on after {so_far[-60:]!r}", text[max(0, same_to - 60) : same_to + 60])


@requirement("TOK-208")
@pytest.mark.parametrize("kind", ["text", "call"])
def test_a_sampled_turn_comes_back_with_its_ids(case, kind):
    first, second = conversation(case, kind)
    so_far = case.prompt(first) + case.ids(first.only)
    same(case.prompt(second)[: len(so_far)], so_far, "the next prompt begins with this prompt and what was sampled")


def own(number):
    return {"messages": [{"role": "user", "content": f"This is question {number}. {PROMPT} Its number is {number * 7919}."}]}


@requirement("TOK-209")
def test_parallel_requests_get_answers_to_their_own_prompts(case):
    def asked(number):
        return case.ask(**own(number), seed=number, max_tokens=16)

    alone = [case.prompt(asked(number)) for number in range(PARALLEL)]
    expect(all(left != right for left, right in pairwise(alone)), "prompts of their own", alone)
    with ThreadPoolExecutor(PARALLEL) as pool:
        together = [case.prompt(said) for said in pool.map(asked, range(PARALLEL))]
    for number, (left, right) in enumerate(zip(together, alone, strict=True)):
        same(left, right, f"the prompt of request {number}")


@requirement("TOK-210")
@both_modes
def test_the_version_of_the_weights_is_told_with_each_reply(case, streamed):
    now = version_of(case.asking.get(case.asking.beside("/weight_info"))) or version_of(
        case.asking.get(case.asking.beside("/get_model_info"))
    )
    if now is None:
        raise NotExercised("the engine tells no version of its weights, neither at /weight_info nor at /get_model_info")
    said = case.ask(streamed=streamed, max_tokens=4)
    found = {version_of(place) for document in said.documents for place in places(document)} - {None}
    same(found, {now}, "the version of the weights in the reply")


def places(document):
    yield document
    yield document.get("metadata")
    yield document.get("meta_info")
    for choice in document["choices"]:
        yield choice
        yield choice.get("meta_info")


def version_of(document):
    return document.get("weight_version") if isinstance(document, dict) else None
