"""SEA: the harness ran, spoke to the engine through the proxy as declared, followed the script, and ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pytest_harness.contract.chat_wire import Turn, line, short, steps, turns
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.pairing import argument_texts
from pytest_harness.contract.validity import trial_exception, trial_exception_message
from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.graph import ROUTES

MOST_TRIES = 2
"""How often a harness may ask the same before it counts as one that does not go on; a second time is GRF-003's."""
SCRIPTED = "scripted"
SHA256 = re.compile(r"[0-9a-f]{64}")
EXIT_STATUS = "NonZeroAgentExitCodeError"
GAVE_UP = frozenset(
    {
        EXIT_STATUS,
        "APIError",
        "AgentSafetyRefusalError",
        "ApiConnectionClosedError",
        "ApiError",
        "ApiInternalServerError",
        "ApiOverloadedError",
        "ApiProviderResourceNotFoundError",
        "ApiRateLimitError",
        "ApiResponseStalledError",
        "ApiUsageLimitError",
        "ContextLengthExceededError",
        "ContextWindowExceededError",
        "OutputLengthExceededError",
        "OutputTokenExceededError",
        "UnknownApiError",
    }
)
"""What Harbor makes of a harness that could not go on with what its model's provider answered: of an exit status by itself; of one with
what was printed, ``ApiError`` and everything below it; and the errors of the models of its own harnesses, which run beside Harbor and pass
on what litellm raises: ``APIError`` for a status that it has no name for, as for a call that the proxy refuses. Who could not log in,
reach the provider or name the model did not give up: that is a row that is wrong."""
NO_VERDICT = frozenset({"RewardFileNotFoundError", "RewardFileEmptyError"})


@check("SEA-001")
def the_harness_reaches_the_engine(evidence: Evidence) -> Iterator[Fault]:
    """Counted by us: Harbor calls the reward of a run without any call valid."""
    if not any(call.method == "POST" and call.outcome == "complete" for call in evidence.calls):
        seen = ", ".join(f"{call.method} {call.path}: {call.outcome}" for call in evidence.calls) or "no call at all"
        yield Fault(None, "one model call that was answered", short(seen), "calls.ndjson")


@check("SEA-002")
def the_script_is_followed_to_its_end(evidence: Evidence) -> Iterator[Fault]:
    """A retry of the same prompt is the same step."""
    groups = _steps(evidence)
    expected = evidence.manifest.scenario.steps
    exact = evidence.manifest.scenario.turns is None and not _cut(evidence)
    if exact and len(groups) != expected:
        last = groups[-1][-1].call
        yield Fault(last.index, f"{expected} turns, as the script has", str(len(groups)), f"{line(last)}, the last turn")
    for number, group in enumerate(groups, start=1):
        if len(group) > MOST_TRIES:
            seen = f"asked {len(group)} times, and answered each time"
            yield Fault(group[-1].call.index, "an agent that goes on from an answer", f"turn {number} {seen}", line(group[-1].call))


@check("SEA-012")
def a_free_harness_ends_within_its_freedom(evidence: Evidence) -> Iterator[Fault]:
    """What it made of the reply or the error is seen by how many turns it took."""
    groups, turns = _steps(evidence), evidence.manifest.scenario.turns
    if turns is None or _cut(evidence):
        raise NotExercised("the scenario does not leave it to the harness how many turns it takes")
    least, most = turns
    if not least <= len(groups) <= most:
        last = groups[-1][-1].call
        yield Fault(last.index, f"{least} to {most} turns, as the scenario allows", str(len(groups)), f"{line(last)}, the last turn")


@check("SEA-003")
def the_scripted_commands_reach_the_harness(evidence: Evidence) -> Iterator[Fault]:
    """In a call of their turn."""
    _steps(evidence)
    if not any(evidence.manifest.scenario.shell_commands):
        raise NotExercised("the scenario has no shell command")
    if _cut(evidence):
        raise NotExercised("the harness was told to take fewer turns than the script has")
    if evidence.manifest.scenario.turns is not None:
        raise NotExercised("the scenario leaves it to the harness which turns it takes")
    yield from missing_commands(evidence)


@check("SEA-004")
def the_trial_ends_without_an_exception(evidence: Evidence) -> Iterator[Fault]:
    """A missing verdict is no fault where the scenario asks for it."""
    ending = evidence.manifest.ending
    if ending.how == "raised":
        yield Fault(
            None, "a trial that finished", f"{ending.exception_type}: {short(ending.exception_message or '')}", "manifest.json ending"
        )
    if evidence.trial_result is None:
        yield Fault(None, "the result of the trial", "a missing file or no JSON object", "trial/result.json")
    for name, step_exception in _step_exceptions(evidence):
        yield Fault(None, "no exception", f"{step_exception} in step {name}", "trial/result.json step_results")
    exception = trial_exception(evidence)
    if (exception == EXIT_STATUS and _cut(evidence)) or (exception in GAVE_UP and evidence.manifest.scenario.may_fail):
        return  # many harnesses say by their exit status that the limit was met, or that they could not go on
    if exception is not None and not (exception in NO_VERDICT and evidence.manifest.scenario.reward is None):
        seen = f"{exception}: {short(trial_exception_message(evidence), 400)}"
        yield Fault(None, "no exception", seen, "trial/result.json exception_info")


@check("SEA-005")
def the_version_that_ran_is_known(evidence: Evidence) -> Iterator[Fault]:
    """Two witnesses, where the harness writes its version into its log; some write it into a sentence, or above what else they run on."""
    version = _plain(evidence.manifest.versions.get("harness"))
    if version is None:
        yield Fault(None, "the version of the harness", repr(evidence.manifest.versions.get("harness")), "manifest.json versions.harness")
        return
    agent = (evidence.trajectory or {}).get("agent")
    logged = _plain(agent.get("version") if isinstance(agent, dict) else None)
    if logged is not None and not re.search(rf"(?<![\w.+-])v?{re.escape(version)}(?![\w+-]|\.\w)", logged):
        yield Fault(None, f"version {version}, as in the manifest", logged, "trial/agent/trajectory.json agent.version")


@check("SEA-006")
def no_call_is_refused(evidence: Evidence) -> Iterator[Fault]:
    """By the proxy; what the engine refuses has another outcome."""
    if not evidence.calls:
        raise NotExercised("no call reached the proxy")
    for call in evidence.calls:
        if call.outcome == "refused":
            yield Fault(call.index, "a call that is served", f"{call.method} {call.path} refused: {call.error}", line(call))


@check("SEA-007")
def it_speaks_the_dialect_that_it_declares(evidence: Evidence) -> Iterator[Fault]:
    """Requests other than POST are no model calls."""
    answered = [call for call in evidence.calls if call.method == "POST" and call.outcome == "complete"]
    if not answered:
        raise NotExercised("no model call was answered")
    declared = evidence.manifest.seam.dialect
    for call in answered:
        if call.dialect != declared or not _route(call).endswith(ROUTES[declared]):
            yield Fault(call.index, f"{declared} on …{ROUTES[declared]}", f"{call.dialect} on {call.path}", line(call))


@check("SEA-008")
def no_call_goes_past_the_proxy(evidence: Evidence) -> Iterator[Fault]:
    """By what the sandbox lets out. Where nobody watches, nobody can say."""
    manifest = evidence.manifest
    if manifest.network is None:
        raise Unverifiable("the evidence does not say what the sandbox let out")
    if manifest.network == "open":
        raise Unverifiable("the sandbox has an open network, and nobody recorded what left it; use one without, such as --sandbox=local")
    for target in manifest.egress:
        yield Fault(None, "no connection but those to the proxy", target, "manifest.json egress")


@check("SEA-009")
def what_ran_is_known_by_its_digest(evidence: Evidence) -> Iterator[Fault]:
    """The version says what it calls itself, the digest what it is; manifest and row name the same harness."""
    manifest = evidence.manifest
    for name, digest in {"digests.harness": manifest.digests.get("harness", ""), "seam.digest": manifest.seam.digest}.items():
        if not SHA256.fullmatch(digest):
            yield Fault(None, "a SHA-256", repr(digest), f"manifest.json {name}")
    if manifest.harness != manifest.seam.harness:
        yield Fault(None, f"{manifest.harness}, as the manifest says", manifest.seam.harness, "manifest.json seam.harness")


@check("SEA-010")
def the_engine_that_is_named_has_answered(evidence: Evidence) -> Iterator[Fault]:
    """The scripted engine signs its replies: under another engine's name they would count as a model's."""
    answered = turns(evidence)
    if not answered:
        raise NotExercised("no model call was answered")
    engine = evidence.manifest.engine
    for turn in answered:
        fingerprint = turn.engine.fingerprint
        if engine != SCRIPTED and isinstance(fingerprint, str) and fingerprint.startswith(f"{SCRIPTED}-"):
            seen = f"a reply signed {short(fingerprint)}"
            yield Fault(turn.call.index, f"replies of {engine}, as the manifest says", seen, f"{line(turn.call)}, replied.body")


@check("SEA-011")
def it_keeps_to_its_step_limit(evidence: Evidence) -> Iterator[Fault]:
    """One turn more is allowed, in which it may sum up."""
    limit = evidence.manifest.step_limit
    if limit is None:
        raise NotExercised("the harness was told no limit of steps")
    groups = _steps(evidence)
    if len(groups) > limit + 1:
        last = groups[-1][-1].call
        yield Fault(last.index, f"at most {limit} turns, and one to sum up", str(len(groups)), f"{line(last)}, the last turn")


def missing_commands(evidence: Evidence) -> list[Fault]:
    """A fault for each scripted command that no delivered call of its turn holds; nor its text, where the harness offers no tools."""
    groups = steps(evidence)
    faults = []
    for number, commands in enumerate(evidence.manifest.scenario.shell_commands):
        group = groups[number] if number < len(groups) else ()
        texts = [text for turn in group for text in _told(turn)]
        for command in commands:
            # What is said may be JSON itself, as the keystrokes of a terminal are.
            if not any(command in text or json.dumps(command, ensure_ascii=False)[1:-1] in text for text in texts):
                where = f"{line(group[-1].call)}, delivered.body tool_calls" if group else "calls.ndjson"
                index = group[-1].call.index if group else None
                faults.append(Fault(index, f"a call with {short(command)}", short("; ".join(texts)) or "no call", where))
    return faults


def _told(turn: Turn) -> Iterator[str]:
    """The texts in which a harness is told a command."""
    for call in turn.harness.calls:
        yield from argument_texts(call)
    if not turn.has_tools:
        yield from (choice.text for choice in turn.harness.choices.values())


def _step_exceptions(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The step and the name of each exception, where a trial has several steps: they stand beside the trial's own, which is none then."""
    results = (evidence.trial_result or {}).get("step_results")
    for result in results if isinstance(results, list) else ():
        info = result.get("exception_info") if isinstance(result, dict) else None
        name = info.get("exception_type") if isinstance(info, dict) else None
        if isinstance(name, str) and not (name in NO_VERDICT and evidence.manifest.scenario.reward is None):
            yield short(result.get("step_name")), name


def _cut(evidence: Evidence) -> bool:
    """Whether the harness's own limit ends it before the script does."""
    limit = evidence.manifest.step_limit
    return limit is not None and limit < evidence.manifest.scenario.steps


def _steps(evidence: Evidence) -> tuple[tuple[Turn, ...], ...]:
    groups = steps(evidence)
    if not groups:
        raise NotExercised("no model call was answered")
    return groups


def _route(call: Call) -> str:
    return call.path.split("?")[0].rstrip("/")


def _plain(version: object) -> str | None:
    if not isinstance(version, str) or version.strip().lower() in {"", "unknown"}:
        return None
    return version.strip().removeprefix("v")
