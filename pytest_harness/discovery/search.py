"""Finds out how a harness is started and pointed at the proxy, by trying, with a bound on the number of tries and on each one's time.

First it is looked for a command line with which, all channels set at once, a model call comes and is answered. Then that channel alone is
held to a whole small task, with the tool found in its requests, until the result of the scripted command comes back and the harness ends.
At last the other channels are tried by themselves, to be told of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_harness.discovery.channels import Channel, channels_of, switches_of
from pytest_harness.discovery.forms import MODELS, Form, forms, given_form, subcommands
from pytest_harness.discovery.lab import Lab, Seen
from pytest_harness.discovery.scan import Words
from pytest_harness.discovery.styles import styles_of
from pytest_harness.discovery.tools import Offered, offered, shells
from pytest_harness.engines.scripted import Script
from pytest_harness.engines.scripted.script import ShellTool, Step
from pytest_harness.evidence import Call
from pytest_harness.evidence.model import Dialect
from pytest_harness.graph import build, is_model_call
from pytest_harness.scenarios import Scenario
from pytest_harness.seams import SeamError, Shell

TRIES = 30
LIMIT_SEC = 45.0
OTHERS = 6
"""At most so many of the other channels are tried by themselves."""

_NAMED_SWITCHES = 4
"""More switches than that are told as a number: a folder with an environment in it names dozens."""

_FORMS = 6
_AT_LEAST_SEC = 5.0
_MODEL_VENDOR = re.compile(r"^openai(?=[/.:])")
_GREETING = "There is nothing to do."
_MISUSED = re.compile(
    r"(unknown|unrecogni[sz]ed|unexpected|invalid|no such) (option|argument|command|flag|subcommand|choice)|^usage:",
    re.IGNORECASE | re.MULTILINE,
)
_ERROR = re.compile(
    r"error|unknown|invalid|missing|required|not (found|set|configured|supported)|no such|cannot|can't|failed|please|must", re.IGNORECASE
)
_FRAMES = " \t│╭╮╰╯─┃|*"
_FINISH = re.compile(r"echo [\"']?([A-Z]+(?:_[A-Z]+)+)\b")


@dataclass(frozen=True)
class Told:
    """What is said while the search goes on: how many tries of how many, and what the last one brought."""

    done: int
    total: int
    text: str


@dataclass(frozen=True)
class Way:
    """How the harness was run: command line, channels, switches."""

    form: Form
    channels: tuple[Channel, ...]
    model: str
    switches: Mapping[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The command line, with placeholders."""
        return self.form.line(arguments=" ".join(filter(None, (channel.arguments for channel in self.channels))), model=self.model)


@dataclass(frozen=True)
class Found:
    """What was found out."""

    way: Way
    """With the one channel that was found."""
    seen: Seen
    """The last run of that way."""
    tools: tuple[Offered, ...]
    shell: Shell | None
    finish: str | None
    complete: bool
    """Whether the result of the scripted command came back to the engine."""
    others: tuple[tuple[Channel, Seen], ...]
    """The other channels that moved it when they were tried alone."""
    still: tuple[str, ...]
    """The names of those that did not."""
    tries: int

    @property
    def dialect(self) -> Dialect:
        """That of most of its model calls."""
        names = [call.dialect for call in self.model_calls]
        return max(names, key=names.count)

    @property
    def model_calls(self) -> tuple[Call, ...]:
        """The answered model calls of the last run."""
        return tuple(call for call in self.seen.answered if is_model_call(call))

    @property
    def side_calls(self) -> int:
        """How many model calls of the last run belong to no turn of the agent's conversation."""
        return sum(turn.role != "agent" for turn in build(self.seen.calls).turns)


class NothingMovedError(SeamError):
    """No try brought a model call; the message says what was tried and what the harness said."""


class _OutOfTries(Exception):  # noqa: N818 - the search ends here, which is no error
    """The number of tries is used up."""


class Search:
    """One search. ``line`` is the command line, with ``{instruction}``, where the user knows it."""

    def __init__(
        self,
        lab: Lab,
        command: str,
        words: Words,
        scenario: Scenario,
        *,
        line: str | None,
        tries: int,
        tell: Callable[[Told], None],
    ) -> None:
        self._lab = lab
        self._command = command
        self._words = words
        self._scenario = scenario
        self._line = line
        self._tries = tries
        self._tell = tell
        self._done = 0

    def run(self) -> Found:
        """Search. Raises NothingMovedError."""
        way, first = self._moving()
        channel = self._channel_of(first, way)
        tools = offered(first.calls)
        found = self._hold_to_a_task(way, channel, tools, first)
        others, still = self._others(found)
        return replace(found, others=others, still=still, tries=self._done)

    # ---- a command line that moves it

    def _moving(self) -> tuple[Way, Seen]:
        tried: list[tuple[Way, Seen]] = []
        try:
            for way in self._ways(tried):
                seen = self._try(way)
                tried.append((way, seen))
                if any(is_model_call(call) for call in seen.answered):
                    return way, seen
        except _OutOfTries:
            pass
        raise NothingMovedError(_why_nothing(self._command, tried))

    def _ways(self, tried: Sequence[tuple[Way, Seen]]) -> Iterator[Way]:
        """The ways to try, the likeliest first; later ones heed what became of earlier ones."""
        switches = switches_of(self._words.names)
        everything = channels_of(self._words.names)
        styles = styles_of(self._words.styles, self._command)
        if self._line is not None:
            form = given_form(self._line)
            if "{url}" in self._line or "{key}" in self._line:
                yield Way(form, (Channel("the command line"),), MODELS[0], switches)
                return
            candidates = [form]
        else:
            candidates = list(forms(self._command, self._helps()))[:_FORMS]
        for form in candidates:
            yield Way(form, everything, MODELS[0], switches)
            if tried[-1][1].astray:
                break  # it understood its task, and only its model is yet to be found
        usable = [way.form for way, seen in sorted(tried, key=lambda each: not each[1].astray) if not _misused(seen)] or candidates
        for style in styles:
            for form in usable[:2]:
                yield Way(form, (style,), MODELS[0], switches)
        for model in MODELS[1:]:
            for form in usable[:2]:
                if form.model_option:
                    yield Way(form, everything, model, switches)

    def _helps(self) -> dict[str, str]:
        _, told = self._lab.ask(f"{self._command} --help")
        helps = {"": told}
        for sub in subcommands(self._command, told):
            helps[sub] = self._lab.ask(f"{self._command} {sub} --help")[1]
        return helps

    def _channel_of(self, seen: Seen, way: Way) -> Channel:
        """The channel by which the first model call came, with the variable that its key really is in."""
        request = seen.moved[0]
        channel = next(each for each in way.channels if each.name == request.channel)
        if request.key is not None and channel.key_name not in (None, request.key) and request.key in _variables(way.channels):
            env = {name: value for name, value in channel.env.items() if value != "{key}"}
            channel = replace(channel, env={**env, request.key: "{key}"})
        return channel

    # ---- the whole task

    def _hold_to_a_task(self, way: Way, channel: Channel, tools: tuple[Offered, ...], first: Seen) -> Found:
        alone = replace(way, channels=(channel,), switches={})
        settings = (alone, replace(alone, switches=way.switches)) if way.switches else (alone,)
        best: Found | None = None
        try:
            for shell in (*shells(tools)[:2],) or (None,):
                for setting in (best.way,) if best is not None else settings:
                    found = self._whole(setting, shell, None)
                    if found is None:
                        continue
                    best = best or found
                    if found.complete and not self._ended_well(found) and (finish := _finish_command(found.seen)):
                        told = self._whole(setting, shell, finish)
                        found = told if told is not None and told.complete and self._ended_well(told) else found
                    if found.complete or shell is None:
                        return self._with_fewer_switches(found)
        except _OutOfTries:
            pass
        return best or Found(way, first, tools, None, None, complete=False, others=(), still=(), tries=0)

    def _ended_well(self, found: Found) -> bool:
        """Whether it ended by itself, without asking on after the script was at its end."""
        return found.seen.code == 0 and len(found.model_calls) - found.side_calls <= len(self._scenario.steps)

    def _whole(self, way: Way, shell: Shell | None, finish: str | None) -> Found | None:
        """One run of the whole task; None if it brought no answered model call."""
        seen = self._try(way, shell=shell, finish=finish, whole=True)
        if not any(is_model_call(call) for call in seen.answered):
            return None
        printed = [each for step in self._scenario.steps for each in step.prints if each]
        complete = shell is not None and all(any(each in call.received.body for call in seen.answered) for each in printed)
        return Found(way, seen, offered(seen.calls), shell, finish, complete=complete, others=(), still=(), tries=0)

    def _with_fewer_switches(self, found: Found) -> Found:
        for name in found.way.switches:
            switches = {other: value for other, value in found.way.switches.items() if other != name}
            fewer = self._whole(replace(found.way, switches=switches), found.shell, found.finish)
            if fewer is not None and _as_good(fewer, found):
                found = fewer
        return found

    # ---- the rest

    def _others(self, found: Found) -> tuple[tuple[tuple[Channel, Seen], ...], tuple[str, ...]]:
        way = found.way
        if way.channels[0].name == "the command line":
            return (), ()
        known = (*channels_of(self._words.names), *styles_of(self._words.styles, self._command))
        rest = [channel for channel in known if channel.name != way.channels[0].name][:OTHERS]
        moved: list[tuple[Channel, Seen]] = []
        still: list[str] = []
        try:
            for channel in rest:
                vendor = _vendor_of(channel)
                other = replace(way, channels=(channel,), model=_MODEL_VENDOR.sub(vendor, way.model), form=way.form.for_vendor(vendor))
                seen = self._try(other, limit_sec=min(self._lab.limit_sec, 2 * found.seen.seconds + _AT_LEAST_SEC))
                if any(is_model_call(call) for call in seen.answered):
                    moved.append((channel, seen))
                else:
                    still.append(channel.name)
        except _OutOfTries:
            pass
        return tuple(moved), tuple(still)

    # ---- one try

    def _try(
        self, way: Way, *, shell: Shell | None = None, finish: str | None = None, whole: bool = False, limit_sec: float | None = None
    ) -> Seen:
        if self._done >= self._tries:
            raise _OutOfTries
        self._done += 1
        tool = ShellTool(shell.tool, shell.argument, shell.extra) if shell and shell.tool else None
        script = Script(
            tuple(Step(step.text, step.shell) for step in self._scenario.steps) if tool else (Step(_GREETING),),
            shell=tool,
            finish_command=finish,
            instruction=self._scenario.instruction if tool else None,
        )
        seen = self._lab.run(
            way.line,
            instruction=self._scenario.instruction,
            channels=way.channels,
            switches=way.switches,
            script=script,
            whole=whole,
            limit_sec=limit_sec,
        )
        self._tell(Told(self._done, self._tries, f"{way.line} with {_named(way)}: {_in_short(seen)}"))
        return seen


def _as_good(one: Found, other: Found) -> bool:
    return (one.complete, one.seen.code, len(one.seen.hosts)) == (other.complete, other.seen.code, len(other.seen.hosts))


def _variables(channels: Sequence[Channel]) -> frozenset[str]:
    return frozenset(name for channel in channels for name in channel.env)


def _vendor_of(channel: Channel) -> str:
    vendors = {"ANTHROPIC": "anthropic", "GEMINI": "gemini"}
    return next((name for part, name in vendors.items() if part in channel.name), "openai")


def _finish_command(seen: Seen) -> str | None:
    """A command by which the harness says that the task is done, if its prompt names one: ``echo`` and words in capitals."""
    for call in seen.answered:
        match = _FINISH.search(call.received.body)
        if match is not None:
            return f"echo {match[1]}"
    return None


def _misused(seen: Seen) -> bool:
    return seen.code not in (None, 0) and not seen.requests and _MISUSED.search(seen.output) is not None


def _named(way: Way) -> str:
    channels = way.channels[0].name if len(way.channels) == 1 else f"{len(way.channels)} channels"
    switches = (
        tuple(way.switches) if len(way.switches) <= _NAMED_SWITCHES else (f"{len(way.switches)} switches for a run without a person",)
    )
    return " and ".join((channels, *switches))


def _in_short(seen: Seen) -> str:
    ended = f"ended with {seen.code}" if seen.code is not None else "was ended"
    if seen.answered:
        by = ", ".join(dict.fromkeys(f"{request.channel} ({request.dialect})" for request in seen.moved))
        return f"{len(seen.answered)} answered by way of {by}, {ended} after {seen.seconds:.1f} s"
    if seen.requests:
        return f"asked for {_routes(seen)}{_refusal(seen)}, {ended} after {seen.seconds:.1f} s"
    if seen.astray:
        return f"nothing came, it looked for {', '.join(seen.hosts)}, {ended} after {seen.seconds:.1f} s"
    told = f": {_telling(seen.output)[:120]}" if seen.code else ""
    return f"nothing came, {ended} after {seen.seconds:.1f} s{told}"


def _routes(seen: Seen) -> str:
    return ", ".join(dict.fromkeys(f"{each.method} {each.path}" for each in seen.requests))


def _refusal(seen: Seen) -> str:
    """Why the first model call was not answered, where the proxy or the engine said why."""
    refused = next((call for call in seen.calls if call.outcome != "complete"), None)
    if refused is None:
        return ""
    told = re.search(r'"message": ?"([^"]{1,160})', refused.delivered.body) if refused.delivered else None
    return f" ({refused.outcome}: {told[1] if told else refused.error or 'no reply'})"


def _telling(output: str) -> str:
    """The line of an output that likely says what went wrong: the last that speaks of an error, else the last."""
    lines = [line for each in output.splitlines() if (line := each.strip(_FRAMES))]
    return next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1] if lines else "nothing")


def _why_nothing(command: str, tried: Sequence[tuple[Way, Seen]]) -> str:
    if not tried:
        return f"{command}: no try was allowed; give --tries a number above 0"
    asked = next((seen for _, seen in tried if seen.requests), None)
    says = [_telling(seen.output) for _, seen in tried if not _misused(seen)] or [_telling(seen.output) for _, seen in tried]
    last = f"; it says: {says[0][:200]}"
    if asked is not None:
        told = f"{_routes(asked)}{_refusal(asked)}"
        return f"{command} came to the proxy in {len(tried)} tries, but not with a model call that was answered: {told}{last}"
    return (
        f"nothing moved the traffic of {command} to the proxy in {len(tried)} tries{last}; "
        "if you know how it is started, say so with --command 'PROGRAM OPTIONS {instruction}'"
    )
