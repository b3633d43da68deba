"""How a harness may be told its task on the command line, guessed from what it says of itself when it is asked for help."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

SUBCOMMANDS = ("exec", "run", "go", "chat", "ask", "agent")
"""Names of a subcommand that takes a task, the likeliest first."""
PROMPTS = ("--prompt", "--message", "--task", "--print", "--single", "--query", "-p", "-m", "-q")
MODELS = ("{model}", "openai/{model}", "generic.{model}", "openai:{model}", "local/{model}", "openai.{model}")
"""How harnesses that know several providers want a model's name."""

_FLAGS: tuple[tuple[str, ...], ...] = (
    (
        "--yolo",
        "--dangerously-skip-permissions",
        "--dangerously-bypass-approvals-and-sandbox",
        "--auto-approve",
        "--always-approve",
        "--allow-all-tools",
        "--full-auto",
        "--no-confirm",
        "--auto",
    ),
    ("--non-interactive", "--headless"),
    ("--exit-immediately",),
    ("--trust",),
    ("--skip-git-repo-check",),
    ("--no-auto-update", "--no-check-update"),
    ("--shell",),
)
"""Options by which nobody is asked, the first of each group that there is."""
_VALUED: Mapping[str, str] = {"--auth-type": "openai", "--tool-format": "tool", "--approval-mode": "yolo"}
"""Options that want a value, where they are there and no flag above says the same."""


@dataclass(frozen=True)
class Form:
    """A command line up to the options that a channel adds, and how the task follows them."""

    command: str
    """The command with its subcommand and options."""
    prompt: str
    """The option that takes the task; empty where it stands alone."""
    model_option: str = ""
    """The option that takes the model's name; empty where there is none."""

    def line(self, *, arguments: str = "", model: str | None = None) -> str:
        """The whole line, with ``{instruction}``."""
        chosen = f"{self.model_option} {model}" if self.model_option and model and self.model_option not in arguments.split() else ""
        return " ".join(part for part in (self.command, chosen, arguments, self.prompt, "{instruction}") if part)

    def for_vendor(self, vendor: str) -> Form:
        """The same with another vendor's name where the command names OpenAI."""
        return replace(self, command=re.sub(r"(?<=--auth-type )openai", vendor, self.command))


def given_form(line: str) -> Form:
    """The form of a line that the user has written, with ``{instruction}`` at its end."""
    return Form(line.replace("{instruction}", "").strip(), "")


def subcommands(command: str, told: str) -> tuple[str, ...]:
    """Those of the known subcommands that the text for help lists."""
    name = re.escape(command)
    return tuple(sub for sub in SUBCOMMANDS if re.search(rf"^[\s│|]*(?:{name}\s+)?{sub}(?:[|,\s]|$)(?!\S*=)", told, re.MULTILINE))


def forms(command: str, helps: Mapping[str, str]) -> tuple[Form, ...]:
    """The forms to try, the likeliest first. ``helps`` has the text for help by subcommand, that of the command itself under ``""``."""
    found: list[Form] = []
    bare: list[Form] = []
    for sub, told in sorted(helps.items(), key=lambda each: (each[0] == "", SUBCOMMANDS.index(each[0]) if each[0] else 0)):
        base = " ".join((command, *([sub] if sub else []), *_flags(told)))
        model = next((option for option in ("--model", "-m") if _has(told, option)), "")
        options = [option for option in PROMPTS if _has(told, option) and _long_form(told, option) in (*PROMPTS, None)]
        found += [Form(base, option, model) for option in _distinct(options, told, [model] if model else [])]
        bare.append(Form(base, "", model))
    return (*found, *bare)


def _flags(told: str) -> Iterator[str]:
    approved = False
    for group in _FLAGS:
        flag = next((flag for flag in group if _has(told, flag) and not _takes_value(told, flag)), None)
        approved |= flag is not None and group is _FLAGS[0]
        if flag is not None:
            yield flag
    for option, value in _VALUED.items():
        if _has(told, option) and not (option == "--approval-mode" and approved):
            yield f"{option} {value}"


def _has(told: str, option: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", told) is not None


def _takes_value(told: str, option: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(option)}(?:[ =](?:<|\[?[A-Z]{{2,}}|\[?<))", told) is not None


def _long_form(told: str, option: str) -> str | None:
    """The long option that a short one stands for; None where the text names none, and for a long option."""
    if option.startswith("--"):
        return None
    match = re.search(rf"(?<![\w-]){option}[, /|]+(--[\w-]+)|(--[\w-]+)[, /|]+{option}(?![\w-])", told)
    return (match[1] or match[2]) if match else None


def _distinct(options: Iterable[str], told: str, taken: Iterable[str]) -> Iterator[str]:
    """Without those that are taken, and the short forms of what is among them or taken: ``-p, --prompt`` is one option."""
    kept = list(taken)
    for option in options:
        if option in kept:
            continue
        same = (rf"{re.escape(option)}\W+{re.escape(other)}|{re.escape(other)}\W+{re.escape(option)}" for other in kept)
        if option.startswith("--") or not any(re.search(rf"(?<![\w-])(?:{one})(?![\w-])", told) for one in same):
            kept.append(option)
            yield option
