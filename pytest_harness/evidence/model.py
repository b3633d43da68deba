"""The model of what was seen in one attempt. It imports nothing of ours and judges nothing.

Values that came from elsewhere (token ids, logprobs, bodies) are kept as they were sent, wrong or not: telling right from
wrong is the work of the checks, and a record that cannot hold a fault cannot show it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

EVIDENCE_VERSION = 1

Dialect = Literal["chat", "responses", "messages", "gemini"]
TrajectoryFormat = Literal["atif", "none"]
Acts = Literal["calls", "commands", "files"]
"""``calls``: by calls of the tools that it offers; ``commands`` and ``files``: it offers none, and takes them from what the model says."""
Outcome = Literal[
    "complete",
    "upstream_error",
    "malformed_upstream",
    "cut_upstream",
    "unreachable_upstream",
    "refused",
    "cancelled",
    "proxy_error",
    "budget_stop",
]
"""``budget_stop``: the session's budget was used up, so the proxy answered by itself and the engine was not asked; never a turn."""
Delivery = Literal["delivered", "client_gone", "unknown"]
Purpose = Literal["train", "eval"]
"""``train``: the session makes the sampling neutral; ``eval``: it leaves the sampling to the harness, unless it has a policy."""
Network = Literal["none", "watched", "open"]
"""``none``: nothing but the proxy can be reached; ``watched``: what left for elsewhere is recorded; ``open``: nobody watches."""


class Record(BaseModel):
    """A frozen piece of evidence. NaN and infinities survive a round trip through JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants", use_attribute_docstrings=True)


class Message(Record):
    """One HTTP message. Header names are lower-case; secrets in headers and body are replaced by ``<redacted>``."""

    headers: dict[str, str]
    body: str
    status: int | None = None
    """The status of a reply; None for a request."""


class Sample(Record):
    """What the engine sampled for one choice: ``token_ids`` and ``logprobs`` are parallel, shape (completion length,)."""

    index: int
    token_ids: tuple[Any, ...] | None
    logprobs: tuple[Any, ...] | None
    """Natural logarithms, as the engine sent them; None where it sent none."""
    finish_reason: str | None


class Times(Record):
    """Unix seconds. A moment that never came is None."""

    received: float
    forwarded: float | None = None
    first_byte: float | None = None
    """When the first byte of the reply's body came from the engine."""
    replied: float | None = None
    delivered: float | None = None


class Call(Record):
    """One wire request with its reply, in the four forms in which it existed."""

    index: int
    """Order of arrival in the attempt, from 0."""
    id: str
    dialect: Dialect
    method: str
    path: str
    streamed: bool
    received: Message
    """The request as the harness sent it."""
    forwarded: Message | None = None
    """The request as the proxy sent it to the engine."""
    replied: Message | None = None
    """The reply as it came from the engine; for a stream, its bytes from the first to the last."""
    delivered: Message | None = None
    """The reply as the harness was to get it."""
    prompt_ids: tuple[Any, ...] | None = None
    """The ids of the prompt as the engine reported them, shape (prompt length,)."""
    samples: tuple[Sample, ...] = ()
    constraints: tuple[str, ...] = ()
    """The fields of the forwarded request that made the sampling another than the model's own, e.g. ``tool_choice``."""
    notes: tuple[str, ...] = ()
    """What the harness's request says and the engine could not be told, and what was added to its reply, a sentence each, e.g. a tool that
    only the vendor's server runs; ``evidence.notes`` reads those that the checks need."""
    outcome: Outcome
    error: str | None = None
    delivery: Delivery = "unknown"
    times: Times


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text} is no regular expression ({error})") from None
    return text


class Deviation(Record):
    """A known fault of a named version of something else: a reason, a link, and the versions that have it."""

    requirement: str
    reason: str
    link: str
    subject: str
    """Whose fault it is: the harness's name, or ``harbor``."""
    versions: str
    """A PEP 440 specifier of the subject's versions that have the fault, e.g. ``>=0.26,<0.27``."""
    expires: str
    """The ISO date after which the entry must be looked at again."""
    seen: Annotated[str, AfterValidator(_pattern)] | None = None
    """A regular expression that is found in whatever is seen of this fault; any other way to break the requirement is not excused."""
    scenarios: tuple[str, ...] = ()
    """The scenarios in which it is seen; empty for any."""
    flaky: bool = False
    """Whether it is seen in some runs only, so that one in which it is not does not make the entry stale."""


class KnownFailure(Record):
    """A requirement that the harness is known to break. It is judged as ever, and its verdict is none the better for being known."""

    requirement: Annotated[str, Field(pattern=r"^[A-Z]{3}-\d{3}$")]
    """Its id."""
    reason: Annotated[str, Field(min_length=1)]
    """What the harness does, in a sentence."""
    scenarios: tuple[str, ...] = ()
    """The scenarios in which it breaks it; empty for any."""
    flaky: bool = False
    """Whether it fails in some attempts only, so that one in which it holds says nothing."""


def known_failure(known: Iterable[KnownFailure], requirement: str, scenario: str) -> str | None:
    """Why it is known that this requirement fails in this scenario, for people; None if it is not."""
    for each in known:
        if each.requirement == requirement and (not each.scenarios or scenario in each.scenarios):
            return f"known failure: {each.reason}"
    return None


class Accounting(Record):
    """How a harness's own log counts, where it does not simply tell every call and every token."""

    prompt: Literal["all", "uncached"] = "all"
    """Whether the tokens that the engine took from its cache are part of the prompt's count."""
    completion: Literal["all", "visible"] = "all"
    """Whether the tokens of the reasoning are part of the completion's count."""
    unlogged: tuple[Literal["truncated", "silent", "compaction"], ...] = ()
    """Which calls of the agent the log does not tell: those that their limit cut, those that say nothing beside their reasoning, and those
    that sum up the history."""


class SeamFacts(Record):
    """What the seam table said of this seam when the attempt ran."""

    harness: str
    digest: str
    """SHA-256 of the row."""
    dialect: Dialect
    streams: bool
    trajectory: TrajectoryFormat
    scenarios: tuple[str, ...] = ()
    """The scenarios that the row declares; a seam is validated in all of them or not at all."""
    deviations: tuple[Deviation, ...] = ()
    known_failures: tuple[KnownFailure, ...] = ()
    accounting: Accounting = Accounting()
    acts_by: Acts | None = None
    """How the harness comes to act; None where an older version wrote the evidence, or the row does not say."""


class EngineFault(Record):
    """A fault that the engine plays on purpose, so that it is seen what becomes of it."""

    turn: int
    """The turn of the script at which it is played, from 1."""
    times: int = 1
    """How often: what is asked once more after that is answered."""
    kind: Literal["error", "overflow", "cut", "length", "empty", "malformed", "unknown_tool"]
    """``error``: an answer with ``status`` and ``message``; ``overflow``: what the engine says where the prompt exceeds its context;
    ``cut``: the connection breaks off inside the reply; ``length``: a limit ends the reply; ``empty``: a reply that says nothing;
    ``malformed``: a call whose arguments are no JSON; ``unknown_tool``: a call of a tool that is not there."""
    status: int | None = None
    message: str | None = None
    retry_after: int | None = None
    """The seconds of the header Retry-After; None where it is not sent."""
    after: int | None = None
    """How many events of a stream come before it is cut, a reply that is not streamed is cut in the middle; or how many tokens the limit
    lets through."""


class ScenarioFacts(Record):
    """What the scenario asks for. ``steps`` is the number of turns its script has."""

    name: str
    steps: int
    shell_commands: tuple[tuple[str, ...], ...]
    """The commands of each scripted turn; several in one turn are parallel calls."""
    prints: tuple[tuple[str, ...], ...] = ()
    """For each command a text that its result must contain, empty where nothing is said; the same shape as ``shell_commands``."""
    reward: float | None
    """What the verifier must say; None where it must say nothing."""
    reward_key: str | None = None
    """Under which of the verifier's keys the scalar stands; None where nobody named one."""
    faults: tuple[EngineFault, ...] = ()
    """What the engine was told to do wrong."""
    turns: tuple[int, int] | None = None
    """How many turns the agent takes at least and at most, where the harness is free; None where each step is a turn."""
    may_fail: bool = False
    """Whether the harness may end with an error."""
    splits: bool = False
    """Whether the model says what no later prompt repeats, by the template's or the parser's rules: reasoning, or text behind its calls."""
    marker: str | None = None
    """What only the script of this one of several rollouts at the same time says; None where it runs alone."""


class Ending(Record):
    """How the attempt ended, as seen by us; what Harbor says is in ``trial/result.json``."""

    how: Literal["finished", "raised"]
    exception_type: str | None = None
    exception_message: str | None = None


class Inside(Record):
    """What a command of the agent's user found in its sandbox before the agent began."""

    user: str
    home: str
    locale: str
    """As the variables name it; empty where they name none."""
    utc_offset: str
    """Of its time zone, such as ``+0000``."""
    umask: str
    interfaces: tuple[str, ...]
    """The names of its network interfaces."""
    routes: int
    """How many ways lead out of it."""
    clock_ahead: float
    """Seconds: how far its clock is ahead of ours, negative where it is behind; 0 where the two agree."""


class Grading(Record):
    """What was found when the agent had ended, before and after it was graded. What could not be looked at is None."""

    began: float
    """Unix seconds, of our clock: from here on only the verifier may write."""
    running: tuple[str, ...] | None = None
    """The names of the processes that the agent had left running."""
    survivors: tuple[str, ...] | None = None
    """Those of them that could not be ended, and ran beside the verifier."""
    variables: tuple[str, ...] | None = None
    """The names of the environment variables that the verifier gets."""
    seam_variables: tuple[str, ...] = ()
    """Those of them whose value holds the attempt's key or the proxy's address."""
    own_variables: dict[str, bool] = {}
    """Those that the task sets for its verifier: whether it gets them with the operator's value."""
    key_in_files: tuple[str, ...] | None = None
    """The logs into which the harness had written the attempt's key; it is redacted in them."""
    reward_written: float | None = None
    """Unix seconds: when the reward's file was last written, where the sandbox shares our clock."""


class RewardChoice(Record):
    """Which of the verifier's numbers is the reward, as it was chosen when the attempt ended."""

    key: str | None
    """None where the rule chooses none."""
    text: str | None = None
    """The number as the verifier wrote it."""
    refused: str = ""
    """Why there is no scalar though the verifier spoke."""


class Companion(Record):
    """Another rollout of the same harness, at the same time, in a sandbox of its own, through the same proxy and engine."""

    marker: str
    """What only its script says."""
    key_digest: str
    """SHA-256 of its key."""
    calls: tuple[str, ...]
    """The ids of its calls, in the order in which they arrived."""
    strayed: int
    """How many of its calls say what only the script of another rollout says."""
    began: float | None
    """Unix seconds: when its first call arrived; None without one."""
    ended: float | None
    """Unix seconds: the last that was seen of its calls; None without one."""
    reward: RewardChoice | None
    """Which of the verifier's numbers is its reward; None where the verifier gave none."""
    exception: str | None = None
    """The name of the exception with which it ended, if it did."""


class Manifest(Record):
    """Who, what, when. Times are ISO 8601 in UTC."""

    evidence_version: int = EVIDENCE_VERSION
    attempt_id: str
    run_id: str
    harness: str
    sandbox: str
    engine: str
    scenario: ScenarioFacts
    attempt: int
    seam: SeamFacts
    model: str
    versions: dict[str, str]
    """Version of everything that took part; ``harness`` is the version that really ran."""
    digests: dict[str, str] = {}
    """SHA-256 of what really ran, e.g. ``harness``."""
    rejected: int = 0
    """Requests that came to the proxy with a wrong key or none: answered 401, and recorded only in this number."""
    key_digest: str | None = None
    """SHA-256 of the attempt's key; the key itself is nowhere."""
    network: Network | None = None
    """What the sandbox lets out; None where nobody said."""
    egress: tuple[str, ...] = ()
    """Where something in a watched sandbox went, or tried to go, that is not the proxy."""
    step_limit: int | None = None
    """How many turns the harness was told to take at most; None where it was told nothing."""
    purpose: Purpose | None = None
    """What the session was for; None where an older version wrote the evidence."""
    sandbox_gone: bool | None = None
    """Whether the sandbox was found to be gone after the attempt; None where nobody looked."""
    inside: Inside | None = None
    """What was found in its sandbox; None where nobody could look, or an older version wrote the evidence."""
    grading: Grading | None = None
    """None where it was not graded, or by an older version."""
    reward: RewardChoice | None = None
    """None where an older version wrote the evidence."""
    companions: tuple[Companion, ...] = ()
    """The rollouts that the scenario asks for beside this one; empty where it ran alone."""
    requirements: str
    started_at: str
    ended_at: str
    ending: Ending


@dataclass(frozen=True)
class Evidence:
    """The frozen record of one attempt.

    ``files`` maps the relative path of each text file below ``trial/`` and ``native/`` to its text; ``others`` are the paths of the files
    there that are no text.
    """

    manifest: Manifest
    calls: tuple[Call, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    others: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """``pi-in-local-edit_file``, as in a test id; a second attempt ends in ``-2``."""
        manifest = self.manifest
        attempt = "" if manifest.attempt == 1 else f"-{manifest.attempt}"
        return f"{manifest.harness}-in-{manifest.sandbox}-{manifest.scenario.name}{attempt}"

    @cached_property
    def trial_result(self) -> dict[str, Any] | None:
        """Harbor's ``result.json``, or None if the trial never wrote one."""
        return self._json("trial/result.json")

    @cached_property
    def trajectory(self) -> dict[str, Any] | None:
        """Harbor's ATIF document of the harness's own log, or None if there is none."""
        return self._json("trial/agent/trajectory.json")

    def _json(self, path: str) -> dict[str, Any] | None:
        text = self.files.get(path)
        if text is None:
            return None
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None
