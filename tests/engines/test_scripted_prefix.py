"""The prompt of a turn begins with the prompt and the sample of the turn before, token for token, however the client echoes it."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.engines.scripted.answer import Answerer
from pytest_harness.engines.scripted.request import read_chat
from pytest_harness.engines.scripted.script import Script
from pytest_harness.engines.scripted.tokenizer import SPECIALS, TAGS, ChatTokenizer
from pytest_harness.engines.scripted.wire import completion

BASH = {"type": "function", "function": {"name": "bash", "description": "<b> & ünicode", "parameters": {"type": "object"}}}
EXTRA = {"timeout": 5, "nested": {"b": [1, 2.5, None, True], "a": "ü"}}
TOKENIZER = ChatTokenizer.bundled()

awkward = st.sampled_from([" x", "x\n", "\n\nx", "x \n\n", "\tx", "x\r\n", " x", "é́", "👩‍👩‍👧", "{", '"}', "\\", "\\n", "<tool", "12 345"])
words = (st.text(max_size=30) | awkward | st.lists(awkward, max_size=4).map("".join)).filter(
    lambda text: not any(tag in text for tag in (*SPECIALS, *TAGS))
)
said = words.filter(str.strip)
steps = st.lists(
    st.tuples(said, st.just([])) | st.tuples(words, st.lists(words, min_size=1, max_size=3)),
    min_size=2,
    max_size=5,
)
tool_outputs = st.text(max_size=30) | st.sampled_from([*SPECIALS, *TAGS, "", "\n", "<tool_call>\n{}\n</tool_call>"])


def respaced(data: st.DataObject, arguments: str) -> Any:
    """The arguments as another JSON library writes them; the order of keys stays."""
    value = json.loads(arguments)
    separators = data.draw(st.sampled_from([None, (",", ":"), (", ", ": "), (" , ", " : ")]))
    if data.draw(st.booleans()):
        return arguments
    return json.dumps(value, separators=separators, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 2])))


def echo(data: st.DataObject, message: dict[str, Any]) -> dict[str, Any]:
    """The assistant message as a client may send it back."""
    content = message["content"]
    told: dict[str, Any] = {"role": "assistant", "reasoning_content": data.draw(st.none() | st.just("why not"))}
    if content:
        if message.get("tool_calls"):
            content = data.draw(st.sampled_from([content, content.strip(), content.rstrip()]))
        told["content"] = data.draw(st.sampled_from([content, [{"type": "text", "text": content}]]))
    else:
        empty = data.draw(st.sampled_from([None, "", [], "absent"]))
        if empty != "absent":
            told["content"] = empty
    if message.get("tool_calls"):
        told["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": respaced(data, call["function"]["arguments"])}}
            for call in message["tool_calls"]
        ]
    elif data.draw(st.booleans()):
        told["tool_calls"] = data.draw(st.sampled_from([[], None]))
    return told


@given(steps=steps, system=st.none() | words, instruction=words, data=st.data())
def test_every_prompt_begins_with_the_prompt_and_the_sample_before_it(steps, system, instruction, data):
    script = Script.for_seam(steps, shell_tool="bash", extra=EXTRA)
    answerer = Answerer(script, TOKENIZER, max_model_len=100_000)
    messages: list[dict[str, Any]] = [{"role": "user", "content": instruction}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    before: list[int] = []
    for number, step in enumerate(script.steps):
        body = {"messages": messages, "tools": [BASH], "return_token_ids": True}
        reply = completion(answerer.answer(read_chat(body, model="m", tokens_as_ids=True), str(number)))
        choice = reply["choices"][0]
        assert reply["prompt_token_ids"][: len(before)] == before
        before = reply["prompt_token_ids"] + choice["token_ids"]
        calls = choice["message"].get("tool_calls", [])
        assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"command": c, **EXTRA} for c in step.commands]
        assert (choice["message"]["content"] or "").strip() == step.text
        assert TOKENIZER.decode(before) == TOKENIZER.decode(reply["prompt_token_ids"]) + TOKENIZER.decode(choice["token_ids"])
        messages.append(echo(data, choice["message"]))
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": data.draw(tool_outputs)} for call in calls]
        if not calls or data.draw(st.booleans()):
            messages.append({"role": data.draw(st.sampled_from(["user", "system", "developer"])), "content": data.draw(words)})


@given(text=st.text())
def test_ids_decode_to_the_text_they_were_made_of(text):
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    plain = [token for token in ids if token not in TOKENIZER.specials]
    assert "".join(TOKENIZER.decode_pieces(plain)) == TOKENIZER.decode(plain)


@given(before=st.text(), after=st.text())
def test_no_token_reaches_over_a_line_break(before, after):
    assert TOKENIZER.encode(f"{before}\n") + TOKENIZER.encode(after) == TOKENIZER.encode(f"{before}\n{after}")
