"""Healthy evidence as real rollouts leave it: pi (streamed) and mini-swe-agent (not streamed), on the wire format of vLLM.

One turn with text and a call, one with two parallel calls, and the end: text for pi, the submitting call for mini-swe-agent, whose
answer never reaches the wire.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from pytest_harness.evidence import (
    Call,
    Companion,
    Deviation,
    Ending,
    Evidence,
    Grading,
    Inside,
    Manifest,
    Message,
    RewardChoice,
    Sample,
    ScenarioFacts,
    SeamFacts,
    Times,
)
from pytest_harness.saboteurs import extras, surgery

TOOLS = [
    {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}
]
COMMANDS = (("ls -la",), ("cat a.txt", "cat some/b.txt"), ())
PRINTS = tuple(tuple(f"some output of {len(command)} characters" for command in commands) for commands in COMMANDS)
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
UNLINKED = Deviation(
    requirement="ATF-003",
    reason="the converter does not link observations of the chat dialect",
    link="https://github.com/harbor-framework/harbor",
    subject="harbor",
    versions=">=0.26,<0.27",
    expires="2027-03-01",
)
Json = dict[str, Any]
OVERFLOW = "This model's maximum context length is"
DETAILED = {
    "prompt_tokens": 6,
    "completion_tokens": 9,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
VERIFIER_STARTED = 100.0
"""Unix seconds, after the last call."""


def pi(*, graded: bool = True, attempt: int = 1, scenario: str = "edit_file", engine: str = "scripted") -> Evidence:
    """A streamed rollout."""
    return build("pi", streams=True, graded=graded, attempt=attempt, scenario=scenario, engine=engine)


def mini(*, graded: bool = True, attempt: int = 1, scenario: str = "edit_file", engine: str = "scripted") -> Evidence:
    """A rollout that is not streamed."""
    return build("mini-swe-agent", streams=False, graded=graded, attempt=attempt, scenario=scenario, engine=engine)


def every() -> dict[str, Evidence]:
    """All kinds of healthy evidence by name; the kill matrix is computed over them. A kind that a requirement needs is added here."""
    return {
        "pi": pi(),
        "pi without a verdict": pi(graded=False),
        "mini-swe-agent": mini(),
        "mini-swe-agent without a verdict": mini(graded=False),
        "pi of an older version": unobserved(),
        "pi with errors, limits and side calls": eventful(pi()),
        "mini-swe-agent with errors, limits and side calls": eventful(mini()),
        "pi that thinks": extras.thinking(pi(), "I had better look first.", ["I had better look first."] * 2),
        "pi in training": trained(pi()),
        "pi without usage": without_usage(pi()),
        "pi whose model calls a tool that is not there": surprised(pi()),
        "pi in company": in_company(),
        "pi that is free": free(pi()),
        "pi beside another": beside_another(pi()),
    }


def unobserved() -> Evidence:
    """A rollout as an older version recorded it: nobody looked at the sandbox, and no key is known by its digest."""
    evidence = pi()
    forgotten = {
        "key_digest": None,
        "network": None,
        "step_limit": None,
        "sandbox_gone": None,
        "reward": None,
        "grading": None,
        "inside": None,
    }
    return replace(evidence, manifest=evidence.manifest.model_copy(update=forgotten))


def eventful(evidence: Evidence) -> Evidence:
    """A rollout with all that may happen in one and is nobody's fault: errors, an overflow, side calls of every kind, and a budget."""
    evidence = extras.failed_call(evidence, 2, status=429, message="Too many requests are running.", headers={"retry-after": "2"})
    evidence = extras.failed_call(evidence, 1, status=400, message=f"{OVERFLOW} 4096 tokens.", edit=wordy)
    evidence = extras.side_call(evidence, response_format={"type": "json_object"}, constraints=("response_format",))
    evidence = extras.side_call(evidence, stop=["END"], edit=lambda reply: reply["choices"][0].update(stop_reason="END"))
    evidence = extras.side_call(evidence, finish="length", max_tokens=9)
    evidence = extras.side_call(evidence, n=2, choices=2)
    evidence = extras.side_call(evidence, logprobs=True, top_logprobs=2, delivered_logprobs=True)
    evidence = extras.side_call(evidence, edit=lambda reply: reply.update(system_fingerprint="vllm-0.32.0", usage=DETAILED))
    again = [*extras.QUESTION, {"role": "assistant", "content": "A short title."}]
    evidence = extras.side_call(evidence, messages=again, prompt=20, edit=lambda reply: reply.update(system_fingerprint="vllm-0.32.0"))
    return extras.stopped_call(evidence)


def trained(evidence: Evidence) -> Evidence:
    """A rollout of a session that makes the sampling neutral, though the harness asks for something else."""
    calls = []
    for one in evidence.calls:
        asked = surgery.edit_request(one, lambda body: body.update(top_p=0.95, temperature=0.7))
        calls.append(surgery.edit_forwarded(asked, lambda body: body.update(extras.NEUTRAL, temperature=1.0)))
    return surgery.with_manifest(replace(evidence, calls=tuple(calls)), purpose="train")


def without_usage(evidence: Evidence) -> Evidence:
    """A streamed rollout of a harness that does not ask for usage."""
    calls = []
    for one in evidence.calls:
        silent = surgery.edit_delivered(one, lambda parts: parts.pop())
        received = surgery.edit_body(one.received, lambda body: body.pop("stream_options"))
        calls.append(silent.model_copy(update={"received": received}))
    return replace(evidence, calls=tuple(calls))


def surprised(evidence: Evidence) -> Evidence:
    """A rollout whose model calls a tool by a name that is not on offer, and is answered."""
    calls = [surgery.edit_request(one, lambda body: body["tools"][0]["function"].update(name="shell")) for one in evidence.calls]
    return replace(evidence, calls=tuple(calls))


def free(evidence: Evidence) -> Evidence:
    """A rollout of a scenario that leaves it to the harness how many turns it takes."""
    return surgery.with_manifest(evidence, scenario=evidence.manifest.scenario.model_copy(update={"turns": (1, 9)}))


def beside_another(evidence: Evidence) -> Evidence:
    """A rollout at the same time as another of the same harness."""
    scenario = evidence.manifest.scenario.model_copy(update={"marker": "rollout-alder"})
    other = Companion(
        marker="rollout-birch",
        key_digest=sha256(b"another key").hexdigest(),
        calls=("another-call-0", "another-call-1"),
        strayed=0,
        began=0.5,
        ended=2.5,
        reward=RewardChoice(key="reward", text="1"),
    )
    return surgery.with_manifest(evidence, scenario=scenario, companions=(other,))


def wordy(body: Json) -> None:
    """A request that is longer than what is asked after it."""
    body["messages"].append({"role": "user", "content": "Here is all I know. " * 9})


SUMMARY = "The task is half done: two files were read, and what they say must still be written down in order."


def in_company() -> Evidence:
    """A streamed rollout in which the agent is not alone: a title call, a subagent, a reply that was lost and asked for again, a summary,
    and the end of the conversation, begun anew with it. Its log knows the agent's own calls only."""
    alone, ids = pi(), random.Random("in company")
    system, task = {"role": "system", "content": "You are an agent."}, {"role": "user", "content": "Do the task."}
    errand = [{"role": "system", "content": "You read files."}, {"role": "user", "content": "Read one file."}]
    end = [system, {"role": "user", "content": f"So far: {SUMMARY}"}]
    looked, read = (
        [(f"chatcmpl-tool-{number}{at}", made[1]) for at, made in enumerate(calls)] for number, calls in ((1, _made(0)), (4, _made(1)))
    )
    first = [system, task]
    second = [*first, echo("I look.", looked, True), *results(looked)]
    third = [*second, echo("", read, True), *results(read), {"role": "user", "content": "Sum up what was done so far."}]
    start, side, summed = (ids.sample(range(4096), count) for count in (40, 30, 130))
    sampled = [ids.sample(range(4096), 12 + number) for number in range(7)]
    grown = [*start, *sampled[1], *ids.sample(range(4096), 9)]
    told: list[tuple[list[Json], list[int], str, list[tuple[str, str]]]] = [
        ([{"role": "system", "content": "You name things."}, task], side[:20], "Doing the task", []),
        (first, start, "I look.", looked),
        (errand, side, "It is empty.", []),
        (second, grown, "", [(f"lost-{name}", arguments) for name, arguments in read]),
        (second, grown, "", read),
        (third, [*grown, *sampled[4], *ids.sample(range(4096), 15)], SUMMARY, []),
        (end, summed, "Done.", []),
    ]
    marks: dict[int, dict[str, str]] = {
        2: {"x-session-id": "s-2", "x-parent-session-id": "s-1"},
        3: {"idempotency-key": "k-3", "x-stainless-retry-count": "0"},
        4: {"idempotency-key": "k-3", "x-stainless-retry-count": "1"},
        5: {"x-openai-subagent": "compact"},
    }
    calls = []
    for number, (messages, prompt, text, made) in enumerate(told):
        logprobs = [-ids.random() - 0.001 for _ in sampled[number]]
        one = call(number, True, messages, prompt, sampled[number], logprobs, text, made)
        headers = {**one.received.headers, "x-session-id": "s-1", **marks.get(number, {})}
        calls.append(one.model_copy(update={"received": one.received.model_copy(update={"headers": headers})}))
    calls[0] = surgery.edit_request(calls[0], lambda body: body.pop("tools"))
    calls[3] = calls[3].model_copy(update={"delivery": "client_gone", "times": calls[3].times.model_copy(update={"delivered": None})})
    own = [calls[number] for number in (1, 4, 6)]
    steps: list[Json] = [{"step_id": 1, "source": "user", "message": "Do the task."}]
    for one in own:
        _, prompt, text, made = told[one.index]
        steps.append(step(len(steps) + 1, text, made, prompt, sampled[one.index], f"chatcmpl-{one.index}", one is own[-1]))
    return replace(alone, calls=tuple(calls), files=files(own, steps, True))


def _made(turn: int) -> list[tuple[str, str]]:
    return [(str(at), json.dumps({"command": command})) for at, command in enumerate(COMMANDS[turn])]


def build(harness: str, *, streams: bool, graded: bool, attempt: int, scenario: str, engine: str) -> Evidence:
    ids = random.Random(harness)
    messages: list[Json] = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "Do the task."}]
    prompt = [ids.randrange(4096) for _ in range(40)]
    calls: list[Call] = []
    steps: list[Json] = [{"step_id": 1, "source": "user", "message": "Do the task."}]
    for number, scripted in enumerate(COMMANDS):
        last = number == len(COMMANDS) - 1
        commands = (SUBMIT,) if last and not streams else scripted
        text = "" if number == 1 else ("Done." if last else "I look.")
        made = [(f"chatcmpl-tool-{number}{position}", json.dumps({"command": command})) for position, command in enumerate(commands)]
        sampled = ids.sample(range(4096), 12 + number)
        logprobs = [-ids.random() - 0.001 for _ in sampled]
        calls.append(call(number, streams, messages, prompt, sampled, logprobs, text, made))
        steps.append(step(number + 2, text, made, prompt, sampled, f"chatcmpl-{number}" if streams else None, last))
        messages = [*messages, echo(text, made, streams), *results(made)]
        prompt = [*prompt, *sampled, *(ids.randrange(4096) for _ in range(9))]
    return Evidence(
        manifest=Manifest(
            attempt_id=f"{harness}-{attempt}",
            run_id="run",
            harness=harness,
            sandbox="local",
            engine=engine,
            scenario=ScenarioFacts(
                name=scenario, steps=len(COMMANDS), shell_commands=COMMANDS, prints=PRINTS, reward=1.0 if graded else None
            ),
            attempt=attempt,
            seam=SeamFacts(
                harness=harness,
                digest="0" * 64,
                dialect="chat",
                streams=streams,
                trajectory="atif",
                deviations=() if streams else (UNLINKED,),
            ),
            model="tiny",
            versions={"harness": "1.6.0", "harbor": "0.26.0"} | ({"vllm": "0.26.0"} if engine == "vllm" else {}),
            digests={"harness": "1" * 64},
            key_digest=sha256(f"{harness} {engine} {scenario} {attempt}".encode()).hexdigest(),
            network="none",
            step_limit=30,
            sandbox_gone=True,
            inside=INSIDE,
            grading=grading(graded),
            reward=RewardChoice(key="reward", text="1") if graded else None,
            requirements="2026.11",
            started_at="2026-11-29T12:00:00Z",
            ended_at="2026-11-29T12:00:02Z",
            ending=Ending(how="finished"),
        ),
        calls=tuple(calls),
        files=files(calls, steps, graded),
    )


INSIDE = Inside(
    user="root", home="/root", locale="C.UTF-8", utc_offset="+0000", umask="0022", interfaces=("lo",), routes=0, clock_ahead=0.0
)


def grading(graded: bool) -> Grading:
    """Nothing of the agent was left, and the verifier has a key of its own."""
    return Grading(
        began=VERIFIER_STARTED - 0.1,
        running=(),
        survivors=(),
        variables=("HOME", "JUDGE_API_KEY", "PATH"),
        own_variables={"JUDGE_API_KEY": True},
        key_in_files=(),
        reward_written=VERIFIER_STARTED + 0.5 if graded else None,
    )


def call(
    number: int,
    streams: bool,
    messages: list[Json],
    prompt: list[int],
    sampled: list[int],
    logprobs: list[float],
    text: str,
    made: list[tuple[str, str]],
) -> Call:
    request: Json = {"model": "openai/tiny", "messages": messages, "tools": TOOLS}
    if streams:
        request |= {"stream": True, "stream_options": {"include_usage": True}, "store": False, "max_completion_tokens": 4096}
    forwarded = {**request, "model": "tiny", "logprobs": True, "top_logprobs": 0, "return_token_ids": True}
    entries = [
        {"token": f"token_id:{one}", "logprob": value, "bytes": [], "top_logprobs": []}
        for one, value in zip(sampled, logprobs, strict=True)
    ]
    reply = stream if streams else whole
    finish = "tool_calls" if made else "stop"
    kind = {"content-type": "text/event-stream" if streams else "application/json"}
    return Call(
        index=number,
        id=f"call-{number}",
        dialect="chat",
        method="POST",
        path="/v1/chat/completions",
        streamed=streams,
        received=Message(headers={"authorization": "<redacted>", "content-type": "application/json"}, body=json.dumps(request)),
        forwarded=Message(headers={"content-type": "application/json"}, body=json.dumps(forwarded)),
        replied=Message(headers=kind, body=reply(number, prompt, sampled, entries, text, made, finish), status=200),
        delivered=Message(headers=kind, body=reply(number, prompt, None, None, text, made, finish, len(sampled)), status=200),
        prompt_ids=tuple(prompt),
        samples=(Sample(index=0, token_ids=tuple(sampled), logprobs=tuple(logprobs), finish_reason=finish),),
        outcome="complete",
        delivery="delivered",
        times=Times(received=number, forwarded=number + 0.1, first_byte=number + 0.2, replied=number + 0.3, delivered=number + 0.4),
    )


def usage(prompt: list[int], count: int) -> Json:
    return {"prompt_tokens": len(prompt), "completion_tokens": count, "total_tokens": len(prompt) + count}


def whole(
    number: int,
    prompt: list[int],
    sampled: list[int] | None,
    entries: list[Json] | None,
    text: str,
    made: list[tuple[str, str]],
    finish: str,
    count: int = 0,
) -> str:
    message: Json = {"role": "assistant", "content": text or None, "refusal": None, "reasoning": None}
    if made:
        message["tool_calls"] = [
            {"id": name, "type": "function", "function": {"name": "bash", "arguments": arguments}} for name, arguments in made
        ]
    choice: Json = {
        "index": 0,
        "message": message,
        "logprobs": entries and {"content": entries},
        "finish_reason": finish,
        "stop_reason": None,
    }
    document: Json = {"id": f"chatcmpl-{number}", "object": "chat.completion", "model": "tiny", "choices": [choice]}
    document["usage"] = usage(prompt, count if sampled is None else len(sampled))
    if sampled is not None:
        choice["token_ids"] = sampled
        document["prompt_token_ids"] = prompt
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def stream(
    number: int,
    prompt: list[int],
    sampled: list[int] | None,
    entries: list[Json] | None,
    text: str,
    made: list[tuple[str, str]],
    finish: str,
    count: int = 0,
) -> str:
    deltas: list[Json] = [{"content": piece} for piece in (text[:3], text[3:]) if piece]
    for index, (name, arguments) in enumerate(made):
        deltas.append({"content": None, "tool_calls": [{"id": name, "type": "function", "index": index, "function": {"name": "bash"}}]})
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in (arguments[:4], arguments[4:])]
    size = count if sampled is None else len(sampled)
    deltas += [{}] * (size - len(deltas))
    chunks: list[Json] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}]}
    ]
    for position, delta in enumerate(deltas):
        last = position == size - 1
        if sampled is None and not delta and not last:
            continue
        choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish if last else None}
        if sampled is not None and entries is not None:
            choice |= {"logprobs": {"content": [entries[position]]}, "token_ids": [sampled[position]]}
        chunks.append({"choices": [choice]})
    chunks.append({"choices": [], "usage": usage(prompt, size)})
    if sampled is not None:
        chunks[0]["prompt_token_ids"] = prompt
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "model": "tiny"}
    events = [json.dumps({**head, **chunk}, ensure_ascii=False, separators=(",", ":")) for chunk in chunks]
    return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])


def echo(text: str, made: list[tuple[str, str]], streams: bool) -> Json:
    """How the harness repeats a turn: pi writes the arguments anew, mini-swe-agent leaves out content that is null."""
    message: Json = {"role": "assistant"}
    if text or streams:
        message["content"] = text or None
    if made:
        message["tool_calls"] = [
            {
                "id": name,
                "type": "function",
                "function": {
                    "name": "bash",
                    "arguments": json.dumps(json.loads(arguments), separators=(",", ":")) if streams else arguments,
                },
            }
            for name, arguments in made
        ]
    return message


def printed(arguments: str) -> str:
    """What the command in these arguments prints."""
    return f"some output of {len(json.loads(arguments)['command'])} characters"


def results(made: list[tuple[str, str]]) -> list[Json]:
    return [{"role": "tool", "tool_call_id": name, "content": printed(arguments)} for name, arguments in made]


def step(number: int, text: str, made: list[tuple[str, str]], prompt: list[int], sampled: list[int], reply: str | None, last: bool) -> Json:
    """``reply`` is the id of its reply, which a log that links results to calls names too."""
    told: Json = {
        "step_id": number,
        "source": "agent",
        "timestamp": f"2026-11-29T12:00:0{number}Z",
        "message": text,
        "metrics": {"prompt_tokens": len(prompt), "completion_tokens": len(sampled)},
        "llm_call_count": 1,
    }
    if reply is not None:
        told["extra"] = {"response_id": reply}
    if made:
        told["tool_calls"] = [
            {"tool_call_id": name, "function_name": "bash", "arguments": json.loads(arguments)} for name, arguments in made
        ]
        if not last:
            links = [{"source_call_id": name} if reply is not None else {} for name, _ in made]
            contents = [printed(arguments) for _, arguments in made]
            told["observation"] = {"results": [{**link, "content": content} for link, content in zip(links, contents, strict=True)]}
    return told


def files(calls: list[Call], steps: list[Json], graded: bool) -> dict[str, str]:
    prompt = sum(len(call.prompt_ids or ()) for call in calls)
    completion = sum(len(call.samples[0].token_ids or ()) for call in calls)
    trajectory = {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "agent", "version": "1.6.0"},
        "steps": steps,
        "final_metrics": {"total_prompt_tokens": prompt, "total_completion_tokens": completion, "total_steps": len(steps)},
    }
    result = {
        "trial_name": "trial",
        "agent_info": {"name": "agent", "version": "unknown"},
        "agent_result": {
            "n_input_tokens": prompt,
            "n_output_tokens": completion,
            "model_usage": {"tiny": {"n_input_tokens": prompt, "n_output_tokens": completion}},
        },
        "verifier_result": {"rewards": {"reward": 1.0}} if graded else None,
        "exception_info": None if graded else {"exception_type": "RewardFileNotFoundError", "exception_message": "no reward file"},
        "verifier": {"started_at": moment(VERIFIER_STARTED), "finished_at": moment(VERIFIER_STARTED + 1.0)},
        "reward_valid": graded,
    }
    found = {
        "trial/agent/trajectory.json": json.dumps(trajectory),
        "trial/result.json": json.dumps(result),
        "trial/config.json": json.dumps({"verifier": {"env": {}, "disable": False}}),
    }
    return {**found, "trial/verifier/reward.txt": "1\n"} if graded else found


def moment(seconds: float) -> str:
    """As Harbor writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()
