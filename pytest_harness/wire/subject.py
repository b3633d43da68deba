"""What one test works with: the proxy under test, the engine behind it, clients, and what was captured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Self

from pytest_harness.owners import temporary_folder
from pytest_harness.wire.adapter import CapturedCall, ProxyAdapter, ProxySession
from pytest_harness.wire.exchanges import ExchangeLog
from pytest_harness.wire.guarding import running
from pytest_harness.wire.outcome import NotExercised, eventually, expect, same
from pytest_harness.wire.raw import Http, Reply, Wire
from pytest_harness.wire.talks import Talk, talk
from pytest_harness.wire.upstream import Gate, Served, Stage, Step, Upstream

_PATHS = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/any-model:generateContent",
}
_SETTLE_SEC = 5.0
"""How long a proxy may take to show what it captured."""


class Subject:
    """The proxy under test, started. Use it as a context manager; raises AdapterError if it cannot be started."""

    def __init__(self, adapter: ProxyAdapter) -> None:
        self.adapter = adapter
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            folder = opened.enter_context(temporary_folder("wire"))
            self.upstream = opened.enter_context(Upstream())
            opened.enter_context(running(self.adapter, lambda: self.adapter.start(self.upstream.engine, folder), self.adapter.stop))
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @contextlib.contextmanager
    def case(self) -> Iterator[Case]:
        """What one test gets; everything that it opened is closed after it."""
        with contextlib.ExitStack() as opened:
            yield Case(self, opened)


class Case:
    """One test's view of the proxy."""

    def __init__(self, subject: Subject, opened: contextlib.ExitStack) -> None:
        self.adapter = subject.adapter
        self.upstream = subject.upstream
        self.log = ExchangeLog()
        self.log.secrets.add(self.upstream.api_key)
        self.http = Http(self.log)
        self._opened = opened
        opened.callback(self.http.close)

    def needs(self, *dialects: str) -> None:
        """Raise NotExercised unless the proxy serves all of them."""
        for dialect in dialects:
            if dialect not in self.adapter.dialects:
                raise NotExercised(f"{self.adapter.name} does not serve the dialect {dialect}")

    def stage(self, *steps: Step, **options: Any) -> Stage:
        """What the engine does; see ``upstream.Stage``."""
        stage: Stage = self._opened.enter_context(self.upstream.stage(*steps, **options))
        return stage

    def gate(self) -> Gate:
        """A point at which the engine waits; it is opened at the end of the test at the latest."""
        gate = self.upstream.gate()
        self._opened.callback(gate.open)
        return gate

    def session(self) -> ProxySession:
        """A new session."""
        session = self.adapter.create_session()
        self.log.secrets.add(session.key)
        return session

    def talk(
        self, dialect: str, stage: Stage, session: ProxySession | None = None, *, text: str = "Hello", tools: bool = False, **options: Any
    ) -> Talk:
        """A new conversation that begins with a user's text; raises NotExercised where the dialect is not served."""
        self.needs(dialect)
        made = talk(dialect, session or self.session(), self.log, tools=tools, **options)
        self._opened.callback(made.close)
        made.user(f"{text} ({stage.tag})")
        return made

    def wire(self, session: ProxySession) -> Wire:
        """A bare connection."""
        wire = Wire(session, self.log)
        self._opened.callback(wire.close)
        return wire

    def url(self, dialect: str, session: ProxySession) -> str:
        """Where a whole reply of the dialect is asked for. Raises NotExercised."""
        self.needs(dialect)
        return session.base_urls[dialect] + _PATHS[dialect]

    def body(self, stage: Stage, dialect: str = "chat", **fields: Any) -> dict[str, Any]:
        """A small request of this stage, as the dialect writes it."""
        text = f"Hello ({stage.tag})"
        if dialect == "gemini":
            return {"contents": [{"role": "user", "parts": [{"text": text}]}], **fields}
        if dialect == "responses":
            return {"model": "any-model", "input": [{"type": "message", "role": "user", "content": text}], "store": False, **fields}
        limit = {"max_tokens": 1024} if dialect == "messages" else {}
        return {"model": "any-model", "messages": [{"role": "user", "content": text}], **limit, **fields}

    def ask(self, stage: Stage, session: ProxySession, dialect: str = "chat", **fields: Any) -> Reply:
        """Post a small request of this stage and give the reply, whatever it is."""
        return self.http.post(self.url(dialect, session), self.body(stage, dialect, **fields), key=session.key)

    # -- what was captured ------------------------------------------------------------------------------------------------

    def calls(self, session: ProxySession, count: int) -> list[CapturedCall]:
        """The complete calls, once there are so many of them. Raises Broken if it stays at another number."""
        found = eventually(lambda: self.complete(session), lambda calls: len(calls) >= count, _SETTLE_SEC)
        same(len(found), count, "captured calls with a whole reply")
        return found

    def complete(self, session: ProxySession) -> list[CapturedCall]:
        """The complete calls captured so far."""
        return [call for call in self.adapter.calls(session) if call.complete]

    def captured_as_served(self, call: CapturedCall, served: Served) -> None:
        """Raise Broken unless the captured ids and logprobs are those that the engine served, type by type."""
        self.ids_as_served(call, served)
        logprobs = call.samples[0].logprobs
        expect(logprobs is not None, "captured logprobs", logprobs)
        same(list(logprobs or ()), list(served.logprobs()), "captured logprobs")

    def calls_as_served(self, session: ProxySession, stage: Stage) -> list[CapturedCall]:
        """The captured calls. Raises Broken unless they are, one by one, those that the engine answered."""
        answered = stage.answered
        calls = self.calls(session, len(answered))
        for call, served in zip(calls, answered, strict=True):
            self.ids_as_served(call, served)
        return calls

    def ids_as_served(self, call: CapturedCall, served: Served) -> None:
        """Raise Broken unless the captured ids are those that the engine served, type by type."""
        expect(call.prompt_ids is not None, "captured prompt ids", call.prompt_ids)
        same(_typed(call.prompt_ids), _typed(served.prompt_ids), "captured prompt ids")
        expect(call.samples and call.samples[0].token_ids is not None, "captured sampled ids", call.samples)
        same(_typed(call.samples[0].token_ids), _typed(served.ids()), "captured sampled ids")


def _typed(values: Any) -> list[tuple[str, Any]]:
    """With their types: 1, 1.0 and True are equal to Python."""
    return [(type(value).__name__, value) for value in values or ()]
