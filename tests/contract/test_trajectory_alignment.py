"""Steps beside calls: by what both name before their order, whatever the log leaves out, and ambiguity is declared."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.contract import judge, judge_one
from pytest_harness.contract.trajectory import align
from pytest_harness.evidence import Accounting
from pytest_harness.filling import fill
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs.extras import failed_call, stopped_call
from pytest_harness.saboteurs.surgery import RESULT, TRAJECTORY, choices, edit_file, edit_reply, spoken, with_call, with_file, with_manifest

CATALOGUE = load_catalogue()


def result(evidence, requirement):
    return judge_one(evidence, CATALOGUE[requirement]).result


def with_agent_steps(evidence, edit):
    return edit_file(evidence, TRAJECTORY, lambda document: edit([step for step in document["steps"] if step["source"] == "agent"]))


def forgetting(*names):
    def forget(steps):
        for step in steps:
            for name in names:
                step.pop(name, None)
            if "message" in names:
                step["message"] = ""

    return forget


def how(evidence):
    return [(pair.turns[0].call.index, pair.by) for pair in align(evidence).pairs]


def test_the_id_of_the_reply_comes_first_then_tool_calls_then_the_text(healthy):
    evidence = healthy.pi()
    assert how(evidence) == [(0, "reply"), (1, "reply"), (2, "reply")]
    evidence = with_agent_steps(evidence, forgetting("extra"))
    assert how(evidence) == [(0, "calls"), (1, "calls"), (2, "text")]


def test_tool_calls_under_other_ids_are_those_of_the_one_call_that_made_them(healthy):
    """As opencode 1.18.33 logs those of Gemini's wire; where two steps tell the same calls, neither is taken for the one that made them."""

    def rename(steps):
        forgetting("extra", "observation", "message")(steps)
        for step in steps:
            for place, call in enumerate(step.get("tool_calls", [])):
                call["tool_call_id"] = f"{step['step_id']}-{place}"

    evidence = with_agent_steps(healthy.pi(), rename)
    assert how(evidence) == [(0, "calls"), (1, "calls"), (2, "place")]
    twice = with_agent_steps(evidence, lambda steps: steps[0].update(tool_calls=steps[1]["tool_calls"]))
    assert how(twice) == [(0, "order"), (1, "order"), (2, "order")]


def test_one_step_between_two_that_are_known_has_its_place(healthy):
    evidence = with_agent_steps(healthy.pi(), lambda steps: forgetting("extra", "tool_calls", "observation", "message")(steps[1:2]))
    assert how(evidence) == [(0, "reply"), (2, "reply"), (1, "place")]


def test_steps_that_nothing_names_are_put_in_order_and_called_ambiguous(healthy):
    evidence = with_agent_steps(healthy.pi(), forgetting("extra", "tool_calls", "observation", "message"))
    assert how(evidence) == [(0, "order"), (1, "order"), (2, "order")]
    assert len(align(evidence).ambiguous) == 3
    assert result(evidence, "ATF-005") == "passed"


def test_where_the_numbers_differ_nothing_is_put_in_order(healthy):
    def drop(document):
        forgetting("extra", "tool_calls", "observation", "message")(document["steps"])
        del document["steps"][-1]

    alignment = align(edit_file(healthy.pi(), TRAJECTORY, drop))
    assert (alignment.pairs, len(alignment.unlogged), len(alignment.uncaptured)) == ((), 3, 2)


def test_two_swapped_calls_of_equal_length_are_noticed(healthy):
    """By the text, where the log names neither replies nor tool calls and every count is the same."""
    evidence = healthy.pi()

    def swap(steps):
        forgetting("extra", "tool_calls", "observation")(steps)
        same = {"prompt_tokens": 5, "completion_tokens": 5}
        for step in steps:
            step["metrics"] = same
        steps[0]["message"], steps[2]["message"] = steps[2]["message"], steps[0]["message"]

    pairs = align(with_agent_steps(evidence, swap)).pairs
    assert [(pair.turns[0].call.index, pair.steps[0].position) for pair in pairs if pair.by == "text"] == [(2, 1), (0, 3)]
    assert [pair.by for pair in pairs] == ["text", "text"]


def test_replies_in_another_order_than_the_wires_are_found(healthy):
    def swap(steps):
        steps[0]["extra"], steps[1]["extra"] = steps[1]["extra"], steps[0]["extra"]

    assert result(with_agent_steps(healthy.pi(), swap), "ATF-021") == "failed"


def test_two_steps_of_one_reply_are_found(healthy):
    evidence = with_agent_steps(healthy.pi(), lambda steps: steps[1].update(extra=steps[0]["extra"]))
    (finding,) = judge_one(evidence, CATALOGUE["ATF-021"]).findings
    assert finding.expected == "another reply"


def test_a_logged_call_without_a_capture_is_a_mismatch_and_never_explained(healthy):
    evidence = replace(healthy.pi(), calls=healthy.pi().calls[:-1])
    accounting = Accounting(unlogged=("truncated", "silent", "compaction"))
    seam = evidence.manifest.seam.model_copy(update={"accounting": accounting})
    for each in (evidence, with_manifest(evidence, seam=seam)):
        assert result(each, "ATF-002") == result(each, "ATF-021") == "failed"


@pytest.mark.parametrize(("declared", "expected"), [((), "failed"), (("truncated",), "passed"), (("compaction",), "failed")])
def test_a_captured_call_that_the_log_does_not_tell_may_be_explained_by_its_seam(healthy, declared, expected):
    """The turn that its limit cut, as Terminus 2 leaves it out."""
    evidence = healthy.pi()
    cut = edit_reply(
        evidence.calls[1], lambda parts: [choice.update(finish_reason="length") for part in parts for choice in part["choices"]]
    )
    evidence = with_call(evidence, cut)

    def forget(document):
        gone = document["steps"].pop(2)
        document["steps"][2]["step_id"] = 3
        totals = document["final_metrics"]
        totals["total_steps"] = 3
        for name in ("prompt_tokens", "completion_tokens"):
            totals[f"total_{name}"] -= gone["metrics"][name]

    def context(document):
        totals = json.loads(evidence.files[TRAJECTORY])["final_metrics"]
        told = document["agent_result"]
        told.update(n_input_tokens=totals["total_prompt_tokens"], n_output_tokens=totals["total_completion_tokens"], model_usage=None)

    evidence = edit_file(evidence, TRAJECTORY, forget)
    evidence = edit_file(evidence, RESULT, context)
    seam = evidence.manifest.seam.model_copy(update={"accounting": Accounting(unlogged=declared)})
    evidence = with_manifest(evidence, seam=seam)
    assert [result(evidence, name) for name in ("ATF-002", "ATF-004", "ATF-006")] == [expected] * 3
    assert result(evidence, "ATF-005") == "passed"


def test_tokens_are_counted_as_the_seam_declares(healthy):
    """Cached tokens left out of the prompt, reasoning left out of the completion."""
    evidence = healthy.pi()
    details = {"prompt_tokens_details": {"cached_tokens": 7}, "completion_tokens_details": {"reasoning_tokens": 2}}
    for call in evidence.calls:
        told = edit_reply(call, lambda parts: [part["usage"].update(details) for part in parts if part.get("usage")])
        evidence = with_call(evidence, told)

    def less(steps):
        for step in steps:
            step["metrics"]["prompt_tokens"] -= 7
            step["metrics"]["completion_tokens"] -= 2

    evidence = with_agent_steps(evidence, less)
    assert result(evidence, "ATF-005") == "failed"
    accounting = Accounting(prompt="uncached", completion="visible")
    seam = evidence.manifest.seam.model_copy(update={"accounting": accounting})
    assert result(with_manifest(evidence, seam=seam), "ATF-005") == "passed"


def test_a_reply_that_nobody_waited_for_may_be_logged_too(healthy):
    """The harness logs the reply that it left and the one that it waited for."""
    evidence = healthy.pi()
    left = evidence.calls[2].model_copy(update={"delivery": "client_gone"})
    again = edit_reply(evidence.calls[2], lambda parts: [part.update(id="chatcmpl-again") for part in parts])
    again = again.model_copy(update={"index": 3, "id": "call-again"})

    def log(document):
        document["steps"].append({**document["steps"][-1], "step_id": 5, "extra": {"response_id": "chatcmpl-again"}})

    evidence = edit_file(replace(evidence, calls=(*evidence.calls[:2], left, again)), TRAJECTORY, log)
    assert [turn.call.index for turn in align(evidence).aside] == [2]
    assert result(evidence, "ATF-002") == result(evidence, "ATF-021") == "passed"


def test_calls_of_a_subagent_in_its_own_document_count(healthy):
    evidence = healthy.pi()
    moved = {}

    def move(document):
        last = document["steps"].pop()
        last["step_id"] = 1
        moved.update(schema_version="ATIF-v1.7", trajectory_id="helper", agent={"name": "helper", "version": "1"}, steps=[last])
        document["subagent_trajectories"] = [moved]
        document["steps"][1]["observation"]["results"][0]["subagent_trajectory_ref"] = [{"trajectory_id": "helper"}]
        document["final_metrics"]["total_steps"] = len(document["steps"])

    evidence = edit_file(evidence, TRAJECTORY, move)
    names = ("ATF-001", "ATF-002", "ATF-004", "ATF-005", "ATF-006", "ATF-009", "ATF-010", "ATF-014", "ATF-021")
    assert {name: result(evidence, name) for name in names} == dict.fromkeys(names, "passed")


def test_calls_of_a_continuation_count_and_its_copied_steps_do_not(healthy):
    evidence = healthy.pi()
    more = {}

    def cut(document):
        last = document["steps"].pop()
        copied = [{**step, "is_copied_context": True, "metrics": None} for step in document["steps"]]
        more.update({name: document[name] for name in ("schema_version", "agent")})
        more["steps"] = [*copied, last]
        more["final_metrics"] = {**document["final_metrics"], "total_steps": 4}
        document["final_metrics"] = None
        document["continued_trajectory_ref"] = "trajectory.cont-1.json"

    evidence = edit_file(evidence, TRAJECTORY, cut)
    evidence = with_file(evidence, "trial/agent/trajectory.cont-1.json", json.dumps(more))
    names = ("ATF-001", "ATF-002", "ATF-003", "ATF-004", "ATF-005", "ATF-009", "ATF-012", "ATF-021")
    assert {name: result(evidence, name) for name in names} == dict.fromkeys(names, "passed")


def test_a_message_that_the_harness_wrote_by_itself_is_no_call(healthy):
    def add(document):
        step = {"step_id": 5, "source": "agent", "message": "API Error", "model_name": "<synthetic>", "llm_call_count": 1}
        document["steps"].append(step)

    assert result(edit_file(healthy.pi(), TRAJECTORY, add), "ATF-002") == "passed"


@given(seed=st.integers(0, 2**16), names=st.sets(st.sampled_from(["extra", "tool_calls", "message"])))
@settings(max_examples=40, deadline=None)
def test_whatever_a_log_leaves_out_no_step_is_put_beside_a_call_that_is_not_its_own(healthy, seed, names):
    choice = random.Random(seed)

    def forget(steps):
        for step in steps:
            forgetting(*(name for name in sorted(names) if choice.random() < 0.5))([step])

    evidence = with_agent_steps(healthy.pi(), forget)
    own = {pair.steps[0].position - 1 for pair in align(evidence).pairs if pair.turns[0].call.index == pair.steps[0].position - 1}
    assert own == {pair.steps[0].position - 1 for pair in align(evidence).pairs}
    assert own == {0, 1, 2}


def test_a_logged_title_is_put_beside_its_side_call_and_no_other_is_made_room_for(healthy):
    evidence = healthy.in_company()
    title = {"source": "agent", "message": "Doing the task", "llm_call_count": 1, "extra": {"response_id": "chatcmpl-0"}}
    other = {"source": "agent", "message": "Who knows", "llm_call_count": 1}

    def insert(*steps):
        def put(document):
            document["steps"][1:1] = steps
            for number, step in enumerate(document["steps"], start=1):
                step["step_id"] = number

        return edit_file(evidence, TRAJECTORY, put)

    assert [turn.call.index for turn in align(insert(title)).aside] == [0]
    assert result(evidence, "ATF-002") == result(insert(title), "ATF-002") == "passed"
    assert result(insert(other), "ATF-002") == result(insert(title, other), "ATF-002") == "failed"


@pytest.mark.parametrize(("place", "aside", "counted"), [(3, [5], "passed"), (2, [], "failed")])
def test_a_text_of_several_calls_is_that_of_the_one_between_its_neighbours(healthy, place, aside, counted):
    """A title and a summary may be the same few words; opencode 1.18.33 logs the summary, of which the place says that it is no title."""
    evidence = healthy.in_company()
    pieces = {"Doi": healthy.SUMMARY[:3], "ng the task": healthy.SUMMARY[3:]}

    def name(parts):
        for delta in map(spoken, choices(parts)):
            delta.update({"content": pieces[delta["content"]]} if delta.get("content") in pieces else {})

    def insert(document):
        document["steps"].insert(place, {"source": "agent", "message": healthy.SUMMARY, "llm_call_count": 1})
        for number, step in enumerate(document["steps"], start=1):
            step["step_id"] = number

    logged = edit_file(with_call(evidence, edit_reply(evidence.calls[0], name)), TRAJECTORY, insert)
    assert [turn.call.index for turn in align(logged).aside] == aside
    assert result(logged, "ATF-002") == counted


def test_several_steps_of_one_reply_are_one_call(healthy):
    """As the OpenHands SDK logs them: a step for each tool call, and the counts in one of them."""

    def split(document):
        steps = document["steps"]
        calls, results = steps[2]["tool_calls"], steps[2]["observation"]["results"]
        second = {"source": "agent", "message": "", "tool_calls": calls[1:], "observation": {"results": results[1:]}}
        steps[2].update(tool_calls=calls[:1], observation={"results": results[:1]})
        steps.insert(3, second)
        for number, step in enumerate(steps, start=1):
            step.update(step_id=number)
            step.pop("llm_call_count", None)
            step.pop("extra", None)
        document["final_metrics"]["total_steps"] = len(steps)

    evidence = edit_file(healthy.pi(), TRAJECTORY, split)
    assert sorted(len(pair.steps) for pair in align(evidence).pairs) == [1, 1, 2]
    names = ("ATF-002", "ATF-003", "ATF-004", "ATF-005", "ATF-006", "ATF-012")
    assert {name: result(evidence, name) for name in names} == dict.fromkeys(names, "passed")


@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_every_count_of_every_step_is_compared(healthy, name):
    for number in range(3):

        def more(steps, number=number):
            steps[number]["metrics"][name] += 1

        (finding,) = judge_one(with_agent_steps(healthy.pi(), more), CATALOGUE["ATF-005"]).findings
        assert (finding.call, finding.where) == (number, f"trial/agent/trajectory.json steps[{number + 1}].metrics.{name}")


def test_a_stop_reply_that_a_step_names_is_that_reply_and_no_call_of_the_model(healthy):
    evidence = stopped_call(healthy.pi())

    def log(document, name="stop-3"):
        step = {"step_id": 5, "source": "agent", "message": "The budget is used up.", "llm_call_count": 1, "extra": {"response_id": name}}
        document["steps"].append(step)

    logged = edit_file(evidence, TRAJECTORY, log)
    assert [turn.call.outcome for turn in align(logged).aside] == ["budget_stop"]
    names = ("ATF-002", "ATF-004", "ATF-005", "ATF-006", "ATF-021", "ATF-022")
    assert {name: result(logged, name) for name in names} == dict.fromkeys(names, "passed")
    assert result(edit_file(logged, TRAJECTORY, lambda document: log(document, "stop-4")), "ATF-002") == "failed"


WORDLESS = {
    "source": "agent",
    "model_name": "tiny",
    "message": "",
    "metrics": {"prompt_tokens": 0, "completion_tokens": 0},
    "llm_call_count": 1,
}


def with_step(evidence, place, step):
    """The log has one more step, before the agent's step of this number."""

    def insert(document):
        agent = [number for number, each in enumerate(document["steps"]) if each["source"] == "agent"]
        document["steps"].insert(agent[place], step)
        for number, each in enumerate(document["steps"], start=1):
            each["step_id"] = number
        document["final_metrics"]["total_steps"] = len(document["steps"])

    return edit_file(evidence, TRAJECTORY, insert)


def broken(evidence):
    return {each.requirement.id for each in judge(evidence, CATALOGUE) if each.result in ("failed", "error")}


@pytest.mark.parametrize("said", ["", "(tool use)"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_failed_call_may_be_logged_as_a_step_without_words(healthy, place, said):
    """Harbor's converter of kimi-cli's log tells so each step that begins, of one that failed too."""
    failed = failed_call(healthy.pi(), place)
    told = with_step(failed, place, {**WORDLESS, "message": said})
    assert broken(failed) == broken(told) == set()
    assert [turn.call.index for turn in align(told).aside] == [place]
    assert align(told).uncaptured == ()
    assert fill(told, CATALOGUE).keys() == {TRAJECTORY.removeprefix("trial/agent/")}


def test_what_came_of_a_reply_before_it_broke_off_may_be_logged(healthy):
    cut = failed_call(healthy.pi(), 1, outcome="cut_upstream")
    begun = {"id": "chatcmpl-cut", "choices": [{"index": 0, "delta": {"content": "I have"}}]}
    said = cut.calls[1].replied.model_copy(update={"body": f"data: {json.dumps(begun)}\n\n", "status": 200})
    cut = with_call(cut, cut.calls[1].model_copy(update={"replied": said}))
    named = {**WORDLESS, "message": "I have", "extra": {"response_id": "chatcmpl-cut"}}
    told = with_step(cut, 1, named)
    assert [(pair.turns[0].call.index, pair.by) for pair in align(told).pairs if pair.turns[0].call.index == 1] == [(1, "reply")]
    assert broken(told) == set()


@pytest.mark.parametrize("logged", [False, True])
def test_a_call_that_broke_off_with_its_reply_may_be_logged_or_not(healthy, logged):
    cut = failed_call(healthy.pi(), 1, outcome="cut_upstream")
    begun = {"index": 0, "id": "call_begun", "type": "function", "function": {"name": "bash", "arguments": '{"comm'}}
    event = {"id": "chatcmpl-cut", "choices": [{"index": 0, "delta": {"tool_calls": [begun]}}]}
    said = cut.calls[1].delivered.model_copy(update={"body": f"data: {json.dumps(event)}\n\n", "status": 200})
    cut = with_call(cut, cut.calls[1].model_copy(update={"replied": said, "delivered": said}))
    call = {"tool_call_id": "call_begun", "function_name": "bash", "arguments": {}}
    told = with_step(cut, 1, {**WORDLESS, "tool_calls": [call]} if logged else dict(WORDLESS))
    assert [turn.call.index for turn in align(told).aside] == [1]
    assert result(told, "ATF-004") == "passed"


@pytest.mark.parametrize("said", ["", "(tool use)"])
def test_a_step_without_words_is_a_call_too_many_where_none_failed(healthy, said):
    step = {**WORDLESS, "message": said}
    assert broken(with_step(healthy.pi(), 1, dict(step))) == {"ATF-002"}
    assert "ATF-002" in broken(with_step(with_step(failed_call(healthy.pi(), 1), 1, dict(step)), 1, dict(step)))
