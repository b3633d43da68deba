"""The reward cases: what a verifier writes or an agent does, and what is to become of it.

What Harbor calls each outcome is its own promise, measured on the version that is installed; that no verdict is no number is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_harness.contract.validity import Blame
from pytest_harness.verifiers.agents import Act

TEXT, JSON = "/logs/verifier/reward.txt", "/logs/verifier/reward.json"
HANGS = "exec tail -f /dev/null"
SHORT_SEC = 1.5
"""How long what never ends is waited for: long enough for everything before it."""
LONG_SEC = 60.0


@dataclass(frozen=True)
class Play:
    """One trial."""

    verdict: str = ""
    """The lines of ``test.sh``."""
    act: Act = "end"
    command: str = "true"
    """What the agent runs in the sandbox."""
    disabled: bool = False
    """Whether the trial is run without its verifier."""
    broken: bool = False
    """Whether the sandbox cannot be started."""
    unhealthy: bool = False
    """Whether the task's healthcheck fails."""
    lost_while_grading: bool = False
    """Whether the sandbox goes away when grading begins."""
    separate: bool = False
    """Whether it is graded in a sandbox of its own."""
    swept: bool = False
    """Whether what the agent left running is ended before it is graded, as a rollout does."""
    beside: str = ""
    """What another agent runs in another sandbox of the same kind meanwhile, if anything."""
    calls_out: bool = False
    """Whether the agent is told where a server of this machine listens."""
    leaves: str = ""
    """The name of a process that the agent leaves running, if it leaves one."""
    verifier_sec: float = LONG_SEC
    agent_sec: float = LONG_SEC
    setup_sec: float = LONG_SEC
    agent_variables: tuple[tuple[str, str], ...] = ()
    verifier_variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Counted:
    """A reward that counts: what Harbor is to record."""

    play: Play
    rewards: Mapping[str, float]


@dataclass(frozen=True)
class Silent:
    """No reward. ``exceptions`` are the names of which one must be recorded; empty where there is none to record."""

    play: Play
    exceptions: frozenset[str] = field(default_factory=frozenset)
    any_exception: bool = False
    """Whether each backend has its own name for it."""
    blame: Blame | None = "surroundings"


def text(content: str) -> str:
    """The line of ``test.sh`` that writes a text file."""
    return f"printf '%s' '{content}' > {TEXT}"


def json(content: str) -> str:
    """The line of ``test.sh`` that writes a JSON file."""
    return f"printf '%s' '{content}' > {JSON}"


def _counted(verdict: str, **rewards: float) -> Counted:
    return Counted(Play(verdict), rewards)


def _silent(verdict: str, *exceptions: str) -> Silent:
    return Silent(Play(verdict), frozenset(exceptions))


NUMBERS: dict[str, Counted] = {
    "one": _counted(text("1"), reward=1.0),
    "zero": _counted(text("0.0"), reward=0.0),
    "negative": _counted(text("-7.5"), reward=-7.5),
    "huge": _counted(text("1e300"), reward=1e300),
    "tiny": _counted(text("5e-324"), reward=5e-324),
    "with_a_line_end": _counted(f"echo 0.25 > {TEXT}", reward=0.25),
    "json": _counted(json('{"reward": 0.5}'), reward=0.5),
    "another_key": _counted(json('{"style": 0.25}'), style=0.25),
    "two_keys": _counted(json('{"correct": 1, "style": 0.5}'), correct=1, style=0.5),
    "json_beside_text": _counted("\n".join([text("1"), json('{"reward": 0.5}')]), reward=0.5),
    "exit_code_after_writing": _counted(f"{text('1')}\nexit 3", reward=1.0),
}
"""The verifier speaks, and its number is the reward."""

NO_NUMBER: dict[str, Silent] = {
    "empty_text": _silent(text(""), "RewardFileEmptyError"),
    "white_space": _silent(text("  "), "VerifierOutputParseError"),
    "word": _silent(text("pass"), "VerifierOutputParseError"),
    "two_numbers": _silent(text("1 2"), "VerifierOutputParseError"),
    "nan": _silent(text("nan"), "VerifierOutputParseError"),
    "infinity": _silent(text("inf"), "VerifierOutputParseError"),
    "beyond_floats": _silent(text("1e999"), "VerifierOutputParseError"),
    "empty_json": _silent(json(""), "RewardFileEmptyError"),
    "bad_json": _silent(json('{"reward": 1'), "VerifierOutputParseError"),
    "bad_json_beside_good_text": _silent(f"{text('1')}\n{json('[')}", "VerifierOutputParseError"),
    "json_null": _silent(json("null"), "VerifierOutputParseError"),
    "json_text": _silent(json('{"reward": "1"}'), "VerifierOutputParseError"),
    "json_list": _silent(json("[1]"), "VerifierOutputParseError"),
    "json_scalar": _silent(json("0.5"), "VerifierOutputParseError"),
    "json_nan": _silent(json('{"reward": NaN}'), "VerifierOutputParseError"),
    "json_infinity": _silent(json('{"reward": 1e999}'), "VerifierOutputParseError"),
    "json_integer_beyond_floats": _silent(json(f'{{"reward": 1{"0" * 400}}}'), "VerifierOutputParseError"),
    "json_one_bad_key": _silent(json('{"reward": 1, "style": NaN}'), "VerifierOutputParseError"),
    "json_boolean": _silent(json('{"reward": true}'), "VerifierOutputParseError"),
}
"""The verifier wrote something that is no finite number."""

NO_VERDICT: dict[str, Silent] = {
    "no_file": _silent("true", "RewardFileNotFoundError"),
    "exit_code_without_a_file": _silent("exit 3", "RewardFileNotFoundError"),
    "verifier_cannot_run": _silent("exec /there/is/no/grader", "RewardFileNotFoundError"),
    "empty_object": _silent(json("{}")),
    "verifier_hangs": Silent(Play(HANGS, verifier_sec=SHORT_SEC), frozenset({"VerifierTimeoutError"})),
    "verifier_hangs_after_writing": Silent(Play(f"{text('1')}\n{HANGS}", verifier_sec=SHORT_SEC), frozenset({"VerifierTimeoutError"})),
    "disabled": Silent(Play(text("1"), disabled=True)),
}
"""The verifier gave no verdict, or was not asked."""

NOT_REACHED: dict[str, Silent] = {
    "no_login": Silent(Play(text("1"), act="no_login"), frozenset({"AgentAuthenticationError"}), blame=None),
    "setup_fails": Silent(Play(text("1"), act="fail_setup"), frozenset({"RuntimeError"})),
    "setup_hangs": Silent(Play(text("1"), act="hang_setup", setup_sec=SHORT_SEC), frozenset({"AgentSetupTimeoutError"})),
    "sandbox_does_not_start": Silent(Play(text("1"), broken=True), any_exception=True),
    "healthcheck_fails": Silent(Play(text("1"), unhealthy=True), frozenset({"HealthcheckError"})),
    "sandbox_dies_under_the_agent": Silent(Play(text("1"), act="lose_sandbox"), any_exception=True),
    "sandbox_dies_while_grading": Silent(Play(text("1"), lost_while_grading=True), any_exception=True),
}
"""The verifier was not reached, or had no sandbox left."""

WORK = "echo 42 > answer.txt"
LOOKS = f"[ -e answer.txt ] && {text('1')} || {text('0')}"

BESIDE: dict[str, Counted] = {
    "raised_after_the_work": Counted(Play(LOOKS, act="raise", command=WORK), {"reward": 1.0}),
    "raised_without_work": Counted(Play(LOOKS, act="raise"), {"reward": 0.0}),
    "exited_after_the_work": Counted(Play(LOOKS, act="exit", command=WORK), {"reward": 1.0}),
    "timed_out_after_the_work": Counted(Play(LOOKS, act="hang", command=WORK, agent_sec=SHORT_SEC), {"reward": 1.0}),
    "timed_out_without_work": Counted(Play(LOOKS, act="hang", agent_sec=SHORT_SEC), {"reward": 0.0}),
}
"""The agent failed, and was graded all the same: its failure is its own."""

VOID: dict[str, Counted] = {"rate_limited": Counted(Play(LOOKS, act="rate_limit", command=WORK), {"reward": 1.0})}
"""The agent was graded, and says nothing of the model: the reward is there and does not count."""

PLANTED: dict[str, Silent] = {
    name: Silent(Play("true", command=line), frozenset({"RewardFileNotFoundError"}))
    for name, line in {"text": text("1"), "json": json('{"reward": 1}')}.items()
}
"""The agent wrote a reward, and the verifier none."""

OPERATORS, SEAMS = "key-of-the-operator", "key-of-the-seam"
KEY = "GRADER_API_KEY"
"""A variable of the same name in the agent's environment and in the verifier's."""

_FROM_OPERATOR = "HARNESS_OPERATORS_GRADER_KEY"
OPERATORS_ENVIRONMENT = {_FROM_OPERATOR: OPERATORS}
"""What the operator has set on this machine."""


def _grader(condition: str) -> str:
    return f"{condition} && {text('1')} || {text('0')}"


KEYS: dict[str, Counted] = {
    "its_own": Counted(
        Play(
            _grader(f'[ "${KEY}" = {OPERATORS} ]'),
            agent_variables=((KEY, SEAMS),),
            verifier_variables=((KEY, f"${{{_FROM_OPERATOR}}}"),),
        ),
        {"reward": 1.0},
    ),
    "not_the_seams": Counted(Play(_grader(f"! env | grep -q {SEAMS}"), agent_variables=((KEY, SEAMS),)), {"reward": 1.0}),
    "the_agent_has_the_seams": Counted(
        Play(
            LOOKS,
            command=f'[ "${KEY}" = {SEAMS} ] && ! env | grep -q {OPERATORS} && {WORK}',
            agent_variables=((KEY, SEAMS),),
            verifier_variables=((KEY, f"${{{_FROM_OPERATOR}}}"),),
        ),
        {"reward": 1.0},
    ),
}
"""What the verifier finds in its environment; it gives 1 where that is right."""
