"""ISO, of rollouts of one harness that run at the same time: each has a key, calls, files and a reward of its own."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_harness.contract.chat_wire import line, parse_reply
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.seam import missing_commands
from pytest_harness.evidence.model import Call, Companion, Evidence

COMPANIONS = "manifest.json companions"


@check("ISO-009")
def rollouts_at_the_same_time_do_not_mix(evidence: Evidence) -> Iterator[Fault]:
    """By the words that only one of the scripts has, which come back in every later request, and by the ids of the calls."""
    companions = _companions(evidence)
    faults = [fault for companion in companions for fault in _mixed(evidence, companion)]
    apart = [companion.marker for companion in companions if not _overlaps(companion, evidence.calls)]
    if apart and not faults:
        raise Unverifiable(f"the calls of {', '.join(apart)} were not made at the same time")
    yield from faults


@check("ISO-010")
def each_of_them_gets_its_reward(evidence: Evidence) -> Iterator[Fault]:
    """Only where the script was followed here; what this one gets itself is REW-003's."""
    companions, scenario = _companions(evidence), evidence.manifest.scenario
    if scenario.reward is None:
        raise NotExercised("the scenario foresees no verdict")
    if missing_commands(evidence):
        raise NotExercised("the scripted commands were not delivered")
    for companion in companions:
        if _earned(companion) != scenario.reward:
            seen = None if companion.reward is None else companion.reward.text
            after = f", after {companion.exception}" if companion.exception else ""
            yield Fault(None, f"a reward of {scenario.reward}", f"{seen}{after}", f"{COMPANIONS}, {companion.marker}")


def _mixed(evidence: Evidence, companion: Companion) -> Iterator[Fault]:
    words, whose = f"{companion.marker}, which only the script of another rollout says", f"{COMPANIONS}, {companion.marker}"
    for call in evidence.calls:
        if says(call, companion.marker):
            yield Fault(call.index, "what belongs to this rollout", words, line(call))
        if call.id in companion.calls:
            yield Fault(call.index, "a call of this rollout alone", f"{call.id}, which is in another's record too", line(call))
    for path, text in evidence.files.items():
        if companion.marker in text:
            yield Fault(None, "what belongs to this rollout", words, path)
    if companion.strayed:
        yield Fault(None, "no word of another rollout in its calls", f"such words in {companion.strayed} of its calls", whose)
    if not companion.calls and (_earned(companion) or 0) > 0:
        yield Fault(None, "its calls in its own record", "none, and yet it has done its task", whose)
    if companion.key_digest == evidence.manifest.key_digest:
        yield Fault(None, "a key of its own", "the key of this rollout", whose)


def says(call: Call, words: str) -> bool:
    """Whether these words are in the request, or in the reply, also where a stream has cut them."""
    reply = parse_reply(call.replied)
    pieces = [piece for choice in reply.choices.values() for piece in (choice.text, choice.reasoning)]
    pieces += [made.arguments for choice in reply.choices.values() for made in choice.calls]
    return any(words in text for text in (call.model_dump_json(), *pieces))


def _companions(evidence: Evidence) -> tuple[Companion, ...]:
    if not evidence.manifest.companions:
        raise NotExercised("it ran alone")
    return evidence.manifest.companions


def _overlaps(companion: Companion, calls: tuple[Call, ...]) -> bool:
    if companion.began is None or companion.ended is None or not calls:
        return False
    ends = [call.times.delivered or call.times.replied or call.times.received for call in calls]
    return companion.began <= max(ends) and min(call.times.received for call in calls) <= companion.ended


def _earned(companion: Companion) -> float | None:
    reward = companion.reward
    if reward is None or reward.key is None or reward.text is None:
        return None
    try:
        return float(reward.text)
    except ValueError:
        return None
