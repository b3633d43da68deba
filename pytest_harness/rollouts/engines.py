"""The engines that a rollout can run on: one of its own that follows the script, or one with weights that all rollouts of a run share.

An engine with weights is steered: the session tells it the script, request by request. The bundled policy needs no telling where it was
trained on the script, so there the prompts extend what was really sampled.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pytest_harness.capture import Upstream
from pytest_harness.capture.admission import Refuse, Steer
from pytest_harness.capture.guard import Guard
from pytest_harness.capture.probe import Level, probe
from pytest_harness.capture.sessions import Purpose
from pytest_harness.engines.scripted import Script, ScriptedEngine
from pytest_harness.engines.scripted.script import ScriptMismatchError
from pytest_harness.engines.vllm import Steering, cpu_command, own_command, serve
from pytest_harness.engines.vllm.server import FLAGS, OWN_READY_SECONDS
from pytest_harness.evidence import EngineFault
from pytest_harness.provision import Cache
from pytest_harness.provision.vllm import obtain_vllm
from pytest_harness.rollouts.faults import FaultyEngine, Relay
from pytest_harness.serving import BackgroundServer

SCRIPTED_MODEL = "scripted"
SCRIPTED_ROOM = 131072
"""Tokens that the scripted engine has room for, and that any engine names whose prompt is said to be too long: harnesses are made for as
many, and the first prompt of some is 32,000 of its tokens."""
POLICY_MODEL = "policy"
LOG = "vllm.log"


@dataclass(frozen=True)
class SharedEngine:
    """An engine that runs already. It can be handed to another process as JSON."""

    url: str
    api_key: str | None = field(repr=False)
    model: str
    log: str | None
    """Where it writes what it does; None for one that somebody else runs."""
    versions: Mapping[str, str]
    digests: Mapping[str, str]
    steered: bool = True
    """Whether the sessions tell it what to say."""
    policy: bool = False
    """Whether it is the bundled policy, which is told nothing in the rollouts that it was trained on."""
    purpose: Purpose = "eval"
    promised: Level | None = None
    """The level of one that somebody else runs: they may start it again with less, which is noticed. None for one of ours."""
    buffered: bool = False
    """Whether it is to be asked for whole replies only."""

    @property
    def guard(self) -> Guard | None:
        """What notices that it returns less than it did."""
        if self.promised is None:
            return None
        return Guard(self.url, self.model, self.promised, self.purpose == "train", self.api_key)

    def to_json(self) -> str:
        """For another process of this run."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What another process of this run started."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Engine:
    """What one rollout has of its engine. ``keep_log`` puts what the engine said meanwhile into a folder."""

    upstream: Upstream
    steer: Steer | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    purpose: Purpose = "eval"
    keep_log: Callable[[Path], None] = lambda _: None
    leave: Callable[[], None] = lambda: None
    """Says that the rollout is over; others may wait for its first call."""


@contextmanager
def engine_of(
    script: Script, shared: SharedEngine | None, *, salt: str, faults: Sequence[EngineFault] = (), taught: bool = False
) -> Iterator[Engine]:
    """The engine of one rollout: the shared one, or a scripted one that lives as long as the context. Either fails as ``faults`` say.

    ``taught`` says that the bundled policy was trained on this rollout.
    """
    if shared is not None:
        keep_log = _keeper(shared.log)
        upstream = Upstream(url=shared.url, api_key=shared.api_key, model=shared.model, buffered=shared.buffered, guard=shared.guard)
        steer = steered_by(script) if shared.steered and not (shared.policy and taught) else None
        with _faulty(upstream, script, faults) as reached:
            yield Engine(reached, steer, shared.versions, shared.digests, shared.purpose, keep_log)
        return
    key = "sk-hc-" + secrets.token_urlsafe(32)
    scripted = ScriptedEngine(script, model=SCRIPTED_MODEL, max_model_len=SCRIPTED_ROOM, api_key=key, salt=salt, reasons=script.reasons)
    with BackgroundServer(FaultyEngine(scripted, script, faults, room=SCRIPTED_ROOM) if faults else scripted) as server:
        yield Engine(Upstream(url=server.listen().url, api_key=key, model=SCRIPTED_MODEL))


@contextmanager
def _faulty(upstream: Upstream, script: Script, faults: Sequence[EngineFault]) -> Iterator[Upstream]:
    """The way to an engine past what plays the faults, if there are any."""
    if not faults:
        yield upstream
        return
    with BackgroundServer(FaultyEngine(Relay(upstream), script, faults, room=SCRIPTED_ROOM)) as server:
        yield dataclasses.replace(upstream, url=server.listen().url)


def steered_by(script: Script) -> Steer:
    """What a session adds to each request so that an engine with weights follows the script."""
    steering = Steering(script)

    def steer(chat: Mapping[str, Any]) -> Mapping[str, Any] | Refuse:
        try:
            return steering.fields(chat)
        except ScriptMismatchError as error:
            return Refuse(str(error), "tools")

    return steer


@contextmanager
def shared_vllm(
    log: Path,
    say: Callable[[str], None],
    waiting: Callable[[float], None] = lambda _: None,
    *,
    model: str | None = None,
    cache: Cache | None = None,
) -> Iterator[SharedEngine]:
    """A real vLLM for all rollouts of a run: one for the CPU with the bundled policy, or the user's own with a ``model`` of theirs.

    Raises ProvisionError or EngineError.
    """
    if model is not None:
        with _own_vllm(model, log, say, waiting) as shared:
            yield shared
        return
    with begun_vllm(log, say, waiting, cache=cache) as (shared, wait):
        wait()
        yield shared


@contextmanager
def begun_vllm(
    log: Path, say: Callable[[str], None], waiting: Callable[[float], None] = lambda _: None, *, cache: Cache | None = None
) -> Iterator[tuple[SharedEngine, Callable[[], None]]]:
    """The vLLM for the CPU as soon as it was told to start, and what waits until it answers. Both raise ProvisionError or EngineError."""
    vllm = obtain_vllm(Cache() if cache is None else cache, say)
    say(f"starting vLLM {vllm.version} with the trained policy; its log is {log}")
    with serve(cpu_command(vllm.python, vllm.policy), name=POLICY_MODEL, log=log, waiting=waiting, wait=False) as serving:

        def wait() -> None:
            serving.wait()
            say("vLLM is ready")

        shared = SharedEngine(
            url=serving.url,
            api_key=serving.api_key,
            model=serving.model,
            log=str(log),
            versions={"vllm": vllm.version},
            digests={"vllm": vllm.digest, "model": vllm.policy_digest},
            policy=True,
        )
        yield shared, wait


@contextmanager
def _own_vllm(model: str, log: Path, say: Callable[[str], None], waiting: Callable[[float], None]) -> Iterator[SharedEngine]:
    command = own_command(model)
    say(f"starting {command[0]} with {model}; its log is {log}")
    with serve(
        command, name=Path(model).name, log=log, flags=FLAGS, environment={}, ready_seconds=OWN_READY_SECONDS, waiting=waiting
    ) as serving:
        say("vLLM is ready")
        found = probe(serving.url, api_key=serving.api_key)
        versions = {} if found.version is None else {"vllm": found.version}
        yield SharedEngine(serving.url, serving.api_key, serving.model, str(log), versions, {})


def attached(url: str, *, model: str | None = None, api_key: str | None = None, train: bool = False) -> SharedEngine:
    """An engine that somebody else runs, which says what it likes. Raises ProbeError or UpstreamError if it cannot be used as asked."""
    found = probe(url, model=model, api_key=api_key)
    if train:
        found.require_training(url)
    versions = {} if found.version is None else {"engine": found.version}
    purpose: Purpose = "train" if train else "eval"
    return SharedEngine(
        url,
        api_key,
        found.model,
        None,
        versions,
        {},
        steered=False,
        purpose=purpose,
        promised=found.level,
        buffered=found.buffered,
    )


def _keeper(log: str | None) -> Callable[[Path], None]:
    """What copies all that is written to a log from now on."""
    if log is None:
        return lambda _: None
    path = Path(log)
    before = path.stat().st_size
    return lambda folder: _keep(path, before, folder)


def _keep(log: Path, start: int, folder: Path) -> None:
    """Copy what was written since ``start``."""
    folder.mkdir(parents=True, exist_ok=True)
    with log.open("rb") as source, (folder / LOG).open("wb") as target:
        source.seek(start)
        shutil.copyfileobj(source, target)
