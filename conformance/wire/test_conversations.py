"""GRF and PAR: a conversation that is echoed exactly keeps one root, and every call keeps its result."""

from itertools import pairwise

import hypothesis
import pytest
from hypothesis import strategies as st

from pytest_harness.engines.scripted import Fault
from pytest_harness.session.wire_marks import both_modes, each_dialect, requirement
from pytest_harness.wire.outcome import Broken, expect, same

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="<>\ufeff"), max_size=30).map(str.strip)
COMMAND = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="<>"), min_size=1, max_size=20)
EXAMPLES = hypothesis.settings(
    max_examples=8,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],  # an example is short, and each try talks to a proxy
    suppress_health_check=list(hypothesis.HealthCheck),
)
TURN = st.tuples(TEXT, st.lists(COMMAND, max_size=3), st.booleans()).filter(lambda turn: turn[0] or turn[1])


def hold(case, dialect, turns):
    """Hold a conversation of (text, commands, streamed) turns, each echoed as the SDK gave it. Returns its stage and captured calls."""
    case.log.clear()
    stage = case.stage(*((text, commands) for text, commands, _ in turns))
    session = case.session()
    talk = case.talk(dialect, stage, session, tools=True, system="You work in a shell.")
    for number, (_, _, streamed) in enumerate(turns):
        said = talk.ask(streamed=streamed)
        if number < len(turns) - 1:
            if said.calls:
                talk.results([f"Result {number}, {place} ✓" for place in range(len(said.calls))])
            else:
                talk.user(f"Go on, {number}.")
    return stage, case.calls(session, len(turns))


def one_root(calls):
    for number, (before, after) in enumerate(pairwise(calls), start=1):
        extended = tuple(before.prompt_ids or ()) + tuple(before.samples[0].token_ids or ())
        same(tuple(after.prompt_ids or ())[: len(extended)], extended, f"the prompt of turn {number + 1} begins with all of turn {number}")


@requirement("GRF-101")
@each_dialect
def test_any_conversation_that_is_echoed_exactly_keeps_one_root(case, dialect):
    case.needs(dialect)
    case.talk(dialect, case.stage()).close()  # imports the SDK, outside of the examples

    @EXAMPLES
    @hypothesis.given(st.lists(TURN, min_size=2, max_size=4))
    def holds(turns):
        try:
            stage, calls = hold(case, dialect, turns)
            for call, served in zip(calls, stage.answered, strict=True):
                case.ids_as_served(call, served)
            one_root(calls)
        except Broken as broken:
            broken.add_note(f"turns: {turns!r}")
            raise

    holds()


@requirement("GRF-102")
@each_dialect
def test_twenty_turns_with_tools_are_one_chain(case, dialect):
    turns = [(f"Step {number}.", [f"step {number}"] * (1 + number % 3), number % 2 == 1) for number in range(19)] + [("Done.", [], False)]
    one_root(hold(case, dialect, turns)[1])


@requirement("GRF-103")
@each_dialect
def test_the_proxy_adds_nothing_of_its_own_to_the_prompt(case, dialect):
    stage, session = case.stage(), case.session()
    for _ in range(2):
        case.talk(dialect, stage, session, system="Be brief.").ask()
    first, second = stage.answered
    same(second.prompt_ids, first.prompt_ids, "the prompt ids of the same request again")
    roles = [message["role"] for message in first.body["messages"]]
    same(roles, ["system", "user"], "the roles of the messages")


@requirement("GRF-104")
def test_a_rewritten_history_is_a_prompt_of_its_own(case):
    stage, session = case.stage(("First.", ()), ("Second.", ())), case.session()
    talk = case.talk("chat", stage, session)
    talk.ask()
    talk.history[-1]["content"] = "Something else."
    talk.user("Go on.")
    talk.ask()
    case.calls_as_served(session, stage)


@requirement("PAR-101")
@each_dialect
@both_modes
def test_every_result_carries_the_id_of_its_call(case, dialect, streamed):
    stage = case.stage(("", ["one", "two", "three"]), ("Done.", ()))
    talk = case.talk(dialect, stage, tools=True)
    said = talk.ask(streamed=streamed)
    talk.results([f"result of {call.arguments['command']}" for call in said.calls])
    talk.ask(streamed=streamed)
    messages = stage.answered[-1].body["messages"]
    assistant = next(message for message in messages if message["role"] == "assistant")
    made = [(call["id"], call["function"]["arguments"]) for call in assistant["tool_calls"]]
    results = [(message["tool_call_id"], message["content"]) for message in messages if message["role"] == "tool"]
    same([id_ for id_, _ in results], [id_ for id_, _ in made], "the ids of the results, in the order of the calls")
    for name, (_, arguments), (_, content) in zip(("one", "two", "three"), made, results, strict=True):
        expect(name in arguments and name in str(content), f"call and result of {name!r} beside each other", (arguments, content))
    at = messages.index(assistant)
    same([message["role"] for message in messages[at : at + 4]], ["assistant", "tool", "tool", "tool"], "the roles from the calls on")


@requirement("PAR-102")
@each_dialect
@both_modes
def test_parallel_calls_keep_their_order_and_number(case, dialect, streamed):
    commands = [f"command {number}" for number in range(5)]
    said = case.talk(dialect, case.stage(("Five.", commands)), tools=True).ask(streamed=streamed)
    same([call.arguments for call in said.calls], [{"command": command} for command in commands], "the calls that the SDK gives")


@requirement("PAR-103")
@each_dialect
@both_modes
def test_a_call_without_an_id_gets_one_that_stays(case, dialect, streamed):
    stage = case.stage(("", ["one", "two"]), ("Done.", ()), faults=[Fault("null_call_id", calls=[0])])
    talk = case.talk(dialect, stage, tools=True)
    said = talk.ask(streamed=streamed)
    ids = [call.id for call in said.calls]
    if dialect != "gemini":  # there an id is optional
        expect(all(ids) and len(set(ids)) == 2, "two different ids", ids)
    talk.results(["a", "b"])
    talk.ask(streamed=streamed)
    messages = stage.answered[-1].body["messages"]
    made = [call.get("id") for message in messages for call in message.get("tool_calls") or ()]
    results = [message.get("tool_call_id") for message in messages if message["role"] == "tool"]
    expect(all(made) and len(set(made)) == 2, "two different ids in the next request to the engine", made)
    same(results, made, "the ids of the results")


@requirement("PAR-104")
@both_modes
@pytest.mark.parametrize("arguments", ['{"command": "ls', "[1, 2]", "null", "", "ls -la"], ids=["cut", "list", "null", "empty", "text"])
def test_malformed_arguments_are_not_repaired_in_silence(case, streamed, arguments):
    state = {"told": False}

    def change(document):
        for choice in document["choices"]:
            for call in (choice.get("message") or choice.get("delta") or {}).get("tool_calls") or ():
                function = call.get("function") or {}
                if "arguments" in function:
                    function["arguments"] = "" if state["told"] else arguments
                    state["told"] = True

    stage, session = case.stage(("", ["ls"]), change=change), case.session()
    tool = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
    reply = case.ask(stage, session, stream=streamed, tools=[tool])
    if reply.status != 200:
        return
    documents = [event for event in reply.events if event != "[DONE]"] if streamed else [reply.document]
    told = "".join(
        (call.get("function") or {}).get("arguments") or ""
        for document in documents
        for choice in document.get("choices", ())
        for call in (choice.get("message") or choice.get("delta") or {}).get("tool_calls") or ()
    )
    same(told, arguments, "the arguments that the harness gets")
