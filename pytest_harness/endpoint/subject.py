"""What one test works with: the endpoint under test, ways to make it answer, and what all tests ask of a reply."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Self

from pytest_harness.capture.probe import Probe
from pytest_harness.endpoint.abilities import Abilities, Way
from pytest_harness.endpoint.asking import Asking, Endpoint
from pytest_harness.endpoint.reply import Choice, Said
from pytest_harness.wire.outcome import NotExercised, expect, same

FOLLOWS_A_SCRIPT = "+scripted"
"""The end of the version of an engine that says by it that it samples nothing."""


class Subject:
    """The endpoint under test. Use it as a context manager."""

    def __init__(self, endpoint: Endpoint, probe: Probe) -> None:
        self.endpoint = endpoint
        self.probe = probe

    def __enter__(self) -> Self:
        self._asking = Asking(self.endpoint)
        self.abilities = Abilities(self._asking)
        return self

    def __exit__(self, *_: object) -> None:
        self._asking.close()

    @contextlib.contextmanager
    def case(self) -> Iterator[Case]:
        """What one test gets."""
        asking = Asking(self.endpoint)
        try:
            yield Case(self, asking)
        finally:
            asking.close()


class Case:
    """One test's view of the endpoint."""

    def __init__(self, subject: Subject, asking: Asking) -> None:
        self.probe = subject.probe
        self.can = subject.abilities
        self.asking = asking
        self.log = asking.log

    def ask(self, way: Way | None = None, *, streamed: bool = False, **fields: Any) -> Said:
        """Ask in this way. Raises Broken unless a chat completion comes."""
        return self.asking.ask(streamed=streamed, **{**({} if way is None else way.fields), **fields})

    def of(self, kind: str) -> Way:
        """How to get a ``text`` or a ``call``. Raises NotExercised."""
        return self.can.text() if kind == "text" else self.can.calling()

    # -- what several tests ask of a reply ------------------------------------------------------------------------------------

    def lacks(self, name: str) -> None:
        """Raise NotExercised where the engine returns nothing of this kind at all, in one of its modes: one requirement says that."""
        if name in self.probe.whole.missing or name in self.probe.streamed.missing:
            raise NotExercised(f"the engine returns no {name}")

    def ids(self, choice: Choice) -> list[Any]:
        """The sampled ids. Raises Broken if there are none, NotExercised where there never are."""
        if choice.ids is None:
            self.lacks("token_ids")
        expect(choice.ids, "the ids that were sampled (token_ids)", choice.ids)
        return choice.ids or []

    def prompt(self, said: Said) -> list[Any]:
        """The ids of the prompt. Raises Broken if there are none, NotExercised where there never are."""
        if said.prompt_ids is None:
            self.lacks("prompt_token_ids")
        expect(said.prompt_ids, "the ids of the prompt (prompt_token_ids)", said.prompt_ids)
        return said.prompt_ids or []

    def entries(self, choice: Choice) -> list[Any]:
        """The logprob entries. Raises Broken if there are none, NotExercised where there never are."""
        if choice.entries is None:
            self.lacks("logprobs")
        expect(choice.entries, "logprobs", choice.entries)
        return choice.entries or []

    def counted(self, said: Said) -> None:
        """Raise Broken unless usage tells as many tokens as there are ids."""
        usage = said.usage or {}
        same(usage.get("completion_tokens"), sum(len(self.ids(choice)) for choice in said.choices), "the sampled tokens that usage tells")
        same(usage.get("prompt_tokens"), len(self.prompt(said)), "the tokens of the prompt that usage tells")

    def decoded(self, ids: list[Any]) -> str:
        """The text of ids. Raises NotExercised where the engine does not decode."""
        text = self.asking.decoded(ids)
        if text is None:
            raise NotExercised("the engine has no /detokenize, which says what ids stand for")
        return text

    def samples(self) -> None:
        """Raise NotExercised for an engine that says of itself that it follows a script."""
        if (self.probe.version or "").endswith(FOLLOWS_A_SCRIPT):
            raise NotExercised("the engine follows a script and says so by its version: it samples nothing")
