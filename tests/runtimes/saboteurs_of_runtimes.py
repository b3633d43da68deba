"""White-box runtimes with one known fault each. ``BREAKS`` says which requirements must go red, and all others must not.

Each is named on the command line as any other adapter: ``pytest --runtime=saboteurs_of_runtimes:PassedIds``.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from pytest_harness.runtimes.adapter import Message
from pytest_harness.runtimes.bundled import BundledRuntime
from pytest_harness.runtimes.loop import RESERVED, Loop

BREAKS: dict[type[Sabotaged], set[str]] = {}


class Sabotaged(Loop, BundledRuntime):
    """Our runtime and its adapter in one; each fault overrides a part of it."""

    name = "sabotaged"

    def runtime(self):
        return self


def breaks(*requirements):
    def register(cls):
        BREAKS[cls] = set(requirements)
        return cls

    return register


class Orphans(Sabotaged):
    """Leaves calls without a result for which it has a certain reason."""

    reason = ""

    def turn(self, running, model):
        super().turn(running, model)
        running.messages = [message for message in running.messages if not (message.role == "tool" and self.reason in message.text)]


@breaks("RUN-001", "RUN-002")
class OrphansAtTurnLimit(Orphans):
    """Forgets the calls above the limit of a turn."""

    reason = "a turn may make"


@breaks("RUN-001", "RUN-003")
class OrphansAtEpisodeLimit(Orphans):
    """Forgets the calls above the limit of the episode."""

    reason = "an episode may make"


@breaks("RUN-001", "RUN-004")
class OrphansAtDone(Orphans):
    """Forgets the calls behind the one that ended the episode."""

    reason = "the episode had ended"


def behind(messages, change):
    """The messages, with the run of results at their end changed."""
    count = 0
    while count < len(messages) and messages[-1 - count].role == "tool":
        count += 1
    return [*messages[: len(messages) - count], *change(messages[len(messages) - count :])]


@breaks("RUN-001", "RUN-002", "RUN-003", "RUN-004", "RUN-005", "RUN-006", "RUN-008", "RUN-011")
class ReversedResults(Sabotaged):
    """Puts the results of a step in the order in which they came, the last first."""

    def turn(self, running, model):
        super().turn(running, model)
        running.messages = behind(running.messages, lambda results: results[::-1])


@breaks("RUN-005")
class MixedResults(Sabotaged):
    """Takes the results of three parallel calls for each other's."""

    def turn(self, running, model):
        super().turn(running, model)
        running.messages = behind(running.messages, self.mixed)

    def mixed(self, results):
        if len(results) < 3:
            return results
        texts = [result.text for result in results]
        return [replace(result, text=text) for result, text in zip(results, [*texts[1:], texts[0]], strict=True)]


@breaks("RUN-006", "RUN-007")
class PassedIds(Sabotaged):
    """Keeps the engine's ids whatever they are."""

    def identified(self, running, calls):
        return tuple(calls)


@breaks("RUN-007")
class RepeatedIds(Sabotaged):
    """Looks at the ids of one turn alone."""

    def identified(self, running, calls):
        running.ids = set()
        return super().identified(running, calls)


@breaks("RUN-008")
class DiesOfUnknownTools(Sabotaged):
    """Raises over a tool that there is not."""

    def refusal(self, running, reason):
        if reason.startswith("there is no tool"):
            raise LookupError(reason)
        return super().refusal(running, reason)


@breaks("RUN-009")
class DiesOfArguments(Sabotaged):
    """Raises over arguments that are no object."""

    def arguments(self, call):
        return dict(json.loads(call.arguments))


@breaks("RUN-009")
class RepairedArguments(Sabotaged):
    """Makes the call without arguments where they are no object."""

    def arguments(self, call):
        return super().arguments(call) or {}


@breaks("RUN-010")
class SilentErrors(Sabotaged):
    """Tells the data of a result and nothing else."""

    def told(self, result):
        return super().told(replace(result, error=None))


@breaks("RUN-011")
class DiesOfTools(Sabotaged):
    """Ends the episode with a tool that raises."""

    def make(self, running, name, arguments):
        told = super().make(running, name, arguments)
        if "Error:" in told:
            raise RuntimeError(told)
        return told


@breaks("RUN-012")
class OffersReserved(Sabotaged):
    """Shows the model all that the environment has, and refuses what it must not call."""

    def begin(self, environment, limits):
        return replace(super().begin(environment, limits), tools=environment.tools())

    def answer(self, running, call, number):
        if call.name in RESERVED:
            return self.refusal(running, f"{call.name} is not yours")
        return super().answer(running, call, number)


@breaks("RUN-013")
class ForwardsReserved(Sabotaged):
    """Hides what is reserved, and obeys it all the same."""

    def answer(self, running, call, number):
        if call.name in RESERVED:
            return self.make(running, call.name, {})
        return super().answer(running, call, number)


@breaks("RUN-014")
class ForgetsTools(Sabotaged):
    """Offers tools at the first step alone."""

    def turn(self, running, model):
        super().turn(running, ToollessModel(model) if running.steps else model)


class ToollessModel:
    """A model to which no tools are offered."""

    def __init__(self, model):
        self.model = model

    def step(self, messages, tools):
        return self.model.step(messages, ())


@breaks("RUN-015")
class DropsText(Sabotaged):
    """Keeps no text beside calls."""

    def turn(self, running, model):
        super().turn(running, model)
        running.messages = [replace(message, text="") if message.calls else message for message in running.messages]


@breaks("RUN-016")
class RewrittenArguments(Sabotaged):
    """Reads the arguments and writes them anew."""

    def identified(self, running, calls):
        calls = super().identified(running, calls)
        return tuple(call if self.arguments(call) is None else replace(call, arguments=json.dumps(self.arguments(call))) for call in calls)


@breaks("RUN-017")
class ZeroIsNone(Sabotaged):
    """Takes a reward of zero for none."""

    def reward(self, running):
        return super().reward(running) or None


@breaks("RUN-018", "RUN-019")
class ZeroForNone(Sabotaged):
    """Has a reward of zero by default."""

    def reward(self, running):
        return super().reward(running) or 0.0


def told_reward(text):
    found = re.search(r"reward: (-?\d+)", text)
    return float(found[1]) if found else None


@breaks("RUN-017", "RUN-018")
class RewardOfTheModel(Sabotaged):
    """Believes what the model says of its reward."""

    def reward(self, running):
        said = [told_reward(step.text) for step in running.steps]
        return next((reward for reward in said if reward is not None), super().reward(running))


@breaks("RUN-019")
class RewardOfTheData(Sabotaged):
    """Takes a field of a tool's data for the reward."""

    def told(self, result):
        if isinstance(result.data, dict) and "reward" in result.data:
            self.found = result.data["reward"]
        return super().told(result)

    def begin(self, environment, limits):
        self.found = None
        return super().begin(environment, limits)

    def reward(self, running):
        return super().reward(running) if self.found is None else self.found


@breaks("RUN-020")
class NotFinite(Sabotaged):
    """Passes on whatever number there is."""

    def reward(self, running):
        return running.environment.grade()


@breaks("RUN-021")
class UngradedIsLost(Sabotaged):
    """Raises over an episode that nobody graded."""

    def reward(self, running):
        reward = super().reward(running)
        if reward is None:
            raise ValueError("there is no reward")
        return reward


class Cheating(Sabotaged):
    """Runs with limits of its own."""

    def run(self, model, environment, limits):
        return super().run(model, environment, self.loosened(limits))


@breaks("RUN-022")
class OneTurnMore(Cheating):
    """Asks the model once more than it may."""

    def loosened(self, limits):
        return replace(limits, max_turns=limits.max_turns + 1)


@breaks("RUN-023")
class UnlimitedTurns(Cheating):
    """Knows no limit of a turn's calls."""

    def loosened(self, limits):
        return replace(limits, max_calls_per_turn=None)


@breaks("RUN-024", "RUN-025")
class UnlimitedEpisodes(Cheating):
    """Knows no limit of an episode's calls."""

    def loosened(self, limits):
        return replace(limits, max_calls=None)


class Retold(Sabotaged):
    """Keeps something else than what happened."""

    def kept(self, running, reward, error=""):
        return self.retold(super().kept(running, reward, error), running)


@breaks("RUN-025")
class CutIsCompleted(Retold):
    """Does not tell a cut from an end."""

    def retold(self, episode, running):
        return replace(episode, ended="completed" if episode.ended == "truncated" else episode.ended)


@breaks("RUN-026")
class CutWithoutMetrics(Retold):
    """Leaves by another door where a limit cuts."""

    def retold(self, episode, running):
        return replace(episode, metrics={"truncated": True}) if episode.ended == "truncated" else episode


@breaks("RUN-027")
class AsksAfterDone(Sabotaged):
    """Lets the model have a last word."""

    def turn(self, running, model):
        super().turn(running, model)
        if running.ended == "completed" and running.steps[-1].calls:
            running.steps.append(model.step(tuple(running.messages), running.tools))


@breaks("RUN-028")
class CallsAfterDone(Sabotaged):
    """Makes all calls of a step, whatever comes of the first."""

    def turn(self, running, model):
        self.late = None
        super().turn(running, model)
        running.ended = running.ended or self.late

    def answer(self, running, call, number):
        told = super().answer(running, call, number)
        if running.ended == "completed":
            running.ended, self.late = None, "completed"
        return told


@breaks("RUN-020", "RUN-029")
class ZeroOnFailure(Retold):
    """Gives a failed episode a zero."""

    def retold(self, episode, running):
        return replace(episode, reward=0.0) if episode.ended == "failed" else episode


@breaks("RUN-029")
class FailureIsCompleted(Retold):
    """Does not tell a failure from an end."""

    def retold(self, episode, running):
        return replace(episode, ended="completed") if episode.ended == "failed" else episode


@breaks("RUN-030")
class SharedCounters(Retold):
    """Counts on from one episode to the next."""

    turns = 0

    def retold(self, episode, running):
        self.turns += len(running.steps)
        return replace(episode, metrics={**episode.metrics, "turns": self.turns})


@breaks("RUN-030")
class SharedIds(Sabotaged):
    """Gives ids that no call had since it was started."""

    ids: frozenset[str] = frozenset()

    def begin(self, environment, limits):
        return replace(super().begin(environment, limits), ids=set(self.ids))

    def kept(self, running, reward, error=""):
        self.ids = frozenset(running.ids)
        return super().kept(running, reward, error)


@breaks("RUN-031")
class StrungIds(Retold):
    """Strings the ids of all turns together."""

    prompts = "last"

    def retold(self, episode, running):
        ids = {name: sum(getattr(episode, name), ()) for name in ("prompt_ids", "sampled_ids", "logprobs")}
        return replace(episode, **ids)


@breaks("RUN-032")
class FalseTrace(Retold):
    """Names the first call alone."""

    def retold(self, episode, running):
        return replace(episode, trace=episode.trace[:1])


@breaks("RUN-033")
class OtherRecord(Retold):
    """Keeps a record that begins otherwise than the prompts did."""

    def retold(self, episode, running):
        return replace(episode, messages=(Message("system", "You are helpful."), *episode.messages[1:]))
