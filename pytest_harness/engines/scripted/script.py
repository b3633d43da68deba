"""Scripts: what the engine says in each turn, and how "run this shell command" becomes a call of the tool that the harness offers.

Which turn it is follows from the request alone: the number of assistant messages that the conversation already has. Nothing is guessed:
a request that offers tools but not the one the script needs is refused with a sentence that says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

from pytest_harness.engines.scripted.shapes import fitting
from pytest_harness.engines.scripted.tokenizer import END_OF_THOUGHT, SPECIALS, TAGS, THOUGHT, ChatTokenizer

SIDE_ANSWER = "A short answer."
"""What a request gets that is not the agent's conversation: one for a title, a summary, a probe."""

SUMMARY = "summar"
"""What every wish for a summary holds, whether it says summary or summarize."""

Offered = Mapping[str, Sequence[str] | None]


class ScriptError(Exception):
    """A script that cannot be played; the message says which part and why."""


class ScriptMismatchError(Exception):
    """A request to which the script has no answer; the message names what it needs and what was offered."""


@dataclass(frozen=True)
class ShellTool:
    """How the harness's shell tool is called: ``name(argument=COMMAND, **extra)``."""

    name: str
    argument: str
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def arguments(self, command: str) -> dict[str, Any]:
        """The arguments of the call that runs ``command``."""
        return {self.argument: command, **self.extra}


@dataclass(frozen=True)
class OtherCall:
    """A call of another tool than that of the shell."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One turn: reasoning, text, then the shell commands that it runs and its other calls, in parallel if there are several.

    ``then`` is said behind the calls; vLLM's parser tells nobody of it.
    """

    text: str
    commands: tuple[str, ...] = ()
    reasoning: str = ""
    then: str = ""
    calls: tuple[OtherCall, ...] = ()


@dataclass(frozen=True)
class Turn:
    """What to sample: reasoning, text, then tool calls as (name, arguments), and what is said behind them."""

    text: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    reasoning: str = ""
    then: str = ""

    def said(self, tokenizer: ChatTokenizer) -> str:
        """All of it as the model samples it."""
        thought = f"{THOUGHT}\n{self.reasoning}\n{END_OF_THOUGHT}\n\n" if self.reasoning else ""
        return thought + tokenizer.assistant_text(self.text, self.calls) + (f"\n{self.then}" if self.then else "")


@dataclass(frozen=True)
class Script:
    """The turns of one scenario on one harness.

    ``finish_command`` and ``finish_call`` belong to harnesses that end by a shell command or by a tool of their own: the last step calls
    it too. With an ``instruction``, only conversations that contain it follow the script; what contains that of one of the ``others``,
    follows that one.

    The text of a step loses the white space around it: clients trim it, and what is trimmed could not come back token for token.
    """

    steps: tuple[Step, ...]
    shell: ShellTool | None = None
    finish_command: str | None = None
    instruction: str | None = None
    others: tuple[Script, ...] = ()
    side_answer: str = SIDE_ANSWER
    """What a request gets that is nobody's conversation. Where histories are summed up, it is the summary, and must tell the task."""
    finish_call: OtherCall | None = None
    sums_up: bool = False
    """Whether histories are summed up: a user who asks for a summary at the end of a conversation gets it, as words, even if the tools of
    the conversation are still offered, as qwen-code and kimi-code do to have the engine's cache of its prompt."""

    def __post_init__(self) -> None:
        if not self.steps:
            raise ScriptError("the script has no steps; give at least one")
        steps = tuple(replace(step, text=step.text.strip(), commands=tuple(step.commands)) for step in self.steps)
        object.__setattr__(self, "steps", steps)
        for number, step in enumerate(steps, start=1):
            ends = number == len(steps) and (self.finish_command or self.finish_call)
            if not step.text and not step.commands and not step.calls and not ends:
                raise ScriptError(f"step {number} of the script has neither text nor a command; give it one of them")
            _check_text(f"the text of step {number}", f"{step.text}{step.reasoning}{step.then}")
            for command in step.commands:
                _check_text(f"a command of step {number}", command)
            for call in step.calls:
                _check_text(f"a call of step {number}", _as_text(call))
        if self.needs_tools and self.shell is None:
            raise ScriptError("the script runs shell commands, but no shell tool was named; give the tool's name and its argument")
        _check_text("the finish command", self.finish_command or "")
        _check_text("the finish call", _as_text(self.finish_call) if self.finish_call else "")
        _check_text("the answer to what is nobody's conversation", self.side_answer)
        if self.shell:
            _check_text("the shell tool", json.dumps(self.shell.arguments(self.shell.name), ensure_ascii=False))

    @classmethod
    def for_seam(
        cls,
        steps: Iterable[tuple[str, Iterable[str]]],
        *,
        shell_tool: str | None = None,
        shell_argument: str = "command",
        extra: Mapping[str, Any] | None = None,
        finish_command: str | None = None,
        instruction: str | None = None,
    ) -> Self:
        """A script from plain values: a scenario's (text, commands) pairs, and what the seam says of the harness's shell tool."""
        shell = None if shell_tool is None else ShellTool(shell_tool, shell_argument, dict(extra or {}))
        return cls(tuple(Step(text, tuple(commands)) for text, commands in steps), shell, finish_command, instruction)

    @property
    def needs_tools(self) -> bool:
        """Whether any turn calls a tool."""
        return bool(self.finish_command or self.finish_call) or any(step.commands or step.calls for step in self.steps)

    @property
    def reasons(self) -> bool:
        """Whether the model thinks before any of its turns."""
        return any(step.reasoning for step in self.steps)

    def turn(
        self, messages: Sequence[Mapping[str, Any]], offered: Offered, tool_choice: str | None, schema: Mapping[str, Any] | None = None
    ) -> Turn:
        """The turn that follows ``messages``.

        ``offered`` are the request's tools, each with the names of its arguments where they are known; ``tool_choice`` is None,
        ``auto``, ``none``, ``required``, or the name of a tool; ``schema`` is the JSON Schema of the reply that is asked for; the script's
        own words are not held to it. Raises ScriptMismatchError if the tool that the turn calls is not among
        them or takes no such argument, or if the choice asks for another.
        """
        done = self.position(messages, offered, tool_choice)
        if done is None:
            other = next((other for other in self.others if other.position(messages, offered, tool_choice) is not None), None)
            return self._aside(offered, tool_choice, schema) if other is None else other.turn(messages, offered, tool_choice)
        step = self.steps[done] if done < len(self.steps) else Step(self.steps[-1].text)
        commands, others = step.commands, step.calls
        if done >= len(self.steps) - 1:
            commands += (self.finish_command,) if self.finish_command else ()
            others += (self.finish_call,) if self.finish_call else ()
        if not commands and not others:
            if tool_choice in (None, "auto", "none"):
                return Turn(step.text or self.side_answer, reasoning=step.reasoning)
            raise ScriptMismatchError(
                f"The request's tool_choice asks for a call ({tool_choice}), but turn {done + 1} of the script has none."
            )
        calls = [self._shell_call(command, offered, tool_choice) for command in commands]
        calls += [(_checked(call, offered), call.arguments) for call in others]
        return Turn(step.text, tuple(calls), step.reasoning, step.then)

    def position(self, messages: Sequence[Mapping[str, Any]], offered: Offered, tool_choice: str | None) -> int | None:
        """How many turns the conversation has already; None for one that is not the agent's."""
        if self._is_side_call(messages, offered, tool_choice):
            return None
        return sum(1 for message in messages if message.get("role") == "assistant")

    def _is_side_call(self, messages: Sequence[Mapping[str, Any]], offered: Offered, tool_choice: str | None) -> bool:
        if self.needs_tools and (not offered or tool_choice == "none" or self._asked_instead(offered, tool_choice)):
            return True
        if self.sums_up and messages and self._asks_for_a_summary(messages[-1]):
            return True
        return self.instruction is not None and not any(_tells("".join(_parts(message)), self.instruction.strip()) for message in messages)

    def _asks_for_a_summary(self, last: Mapping[str, Any]) -> bool:
        """Whether the last words are the user's and name a summary, not the task, which some wires have in one message with them."""
        words = _parts(last)[-1:]
        is_task = self.instruction is not None and any(_tells(part, self.instruction.strip()) for part in words)
        return last.get("role") == "user" and any(SUMMARY in part.lower() for part in words) and not is_task

    def _asked_instead(self, offered: Offered, tool_choice: str | None) -> str | None:
        """The tool that the request names where it does not offer that of the shell, as one for a title does."""
        shell_is_there = self.shell is None or self.shell.name in offered
        return None if shell_is_there or tool_choice not in offered else tool_choice

    def _aside(self, offered: Offered, tool_choice: str | None, schema: Mapping[str, Any] | None) -> Turn:
        """What a request gets that is nobody's conversation: words, or the call or the JSON that it asks for, with these words."""
        name = self._asked_instead(offered, tool_choice)
        if name is None:
            return Turn(self.side_answer if schema is None else json.dumps(fitting(schema, self.side_answer), ensure_ascii=False))
        return Turn("", ((name, dict.fromkeys(offered[name] or (), self.side_answer)),))

    def _shell_call(self, command: str, offered: Offered, tool_choice: str | None) -> tuple[str, Mapping[str, Any]]:
        assert self.shell is not None
        return self._tool(offered, tool_choice), self.shell.arguments(command)

    def _tool(self, offered: Offered, tool_choice: str | None) -> str:
        assert self.shell is not None
        name = self.shell.name
        if name not in offered:
            raise ScriptMismatchError(
                f"The script calls the tool `{name}`, but the request offers only: {', '.join(offered)}. Correct the seam's shell tool."
            )
        known = offered[name]
        if known is not None and self.shell.argument not in known:
            raise ScriptMismatchError(
                f"The script calls the tool `{name}` with the argument `{self.shell.argument}`, but it takes only: {', '.join(known)}. "
                "Correct the seam's shell argument."
            )
        if tool_choice not in (None, "auto", "required", name):
            raise ScriptMismatchError(f"The script calls the tool `{name}`, but the request's tool_choice asks for `{tool_choice}`.")
        return name


def _as_text(call: OtherCall) -> str:
    return call.tool + json.dumps(call.arguments, ensure_ascii=False)


def _checked(call: OtherCall, offered: Offered) -> str:
    if call.tool not in offered:
        raise ScriptMismatchError(
            f"The script calls the tool `{call.tool}`, but the request offers only: {', '.join(offered)}. Correct the seam's row."
        )
    return call.tool


def _tells(text: str, instruction: str) -> bool:
    """Whether the text holds the task, as it is or as opencode quotes it, with a backslash before each quotation mark."""
    return instruction in text or instruction.replace('"', '\\"') in text


def _parts(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message, of which a user may write several."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [str(part.get("text") or "") for part in parts if isinstance(part, Mapping)]


def _check_text(where: str, text: str) -> None:
    for tag in (*SPECIALS, *TAGS):
        if tag in text:
            raise ScriptError(f"{where} contains {tag}, which the chat template uses as a mark; write it another way")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ScriptError(f"{where} is not valid Unicode (it has a lone surrogate); remove it") from None
