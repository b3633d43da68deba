"""What the suite asks of a collector, whatever it collects: run a function for each task, keep what it gave, go on where it stopped.

The adapter of a runtime names its collector (``RuntimeAdapter.collector``). The suite gives it tasks and a function that plays an episode;
what the function was asked is the suite's own witness beside what the collector returns and what lies on disk. What a collector cannot do,
its adapter refuses with ``NotExercised`` and a reason, or says in the attributes below; ``AdapterError`` is for what is wrong with the
adapter or its surroundings, never for what the collector does wrong. Whatever else is raised is the collector's own refusal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from pytest_harness.wire.outcome import NotExercised

Rule = Literal["run again", "remembered"]
"""What a resume does with an episode that failed, or that the collector's filter dropped."""
Fate = Literal["collected", "failed", "dropped"]


class Stop(KeyboardInterrupt):
    """Raised by the function: the run ends here, as by Ctrl-C."""


@dataclass(frozen=True)
class Outcome:
    """What the function made of an episode."""

    reward: float | None
    mark: str
    """A text that no other call of the function gave; it must be stored with this episode and no other."""
    keep: bool = True
    """What the collector's filter is to say of it."""


class EpisodeFunction(Protocol):
    """Plays one episode. May be called from several threads; raises whatever an episode may raise, and ``Stop``."""

    def __call__(self, task: str | None, episode_id: str) -> Outcome:
        """The outcome; ``task`` is None where the collector has none."""


@dataclass(frozen=True)
class Collected:
    """What a run returned."""

    episode_ids: tuple[str, ...]
    """The ids of the episodes that it says it has."""
    mean: float | None
    """The mean reward, None if it says that there is none."""
    running: tuple[float | None, ...] | None = None
    """The mean that it told after each episode that it collected in this run; None if it tells none."""


@dataclass(frozen=True)
class Stored:
    """An episode as it is on disk."""

    episode_id: str
    task: str | None
    reward: object
    """As it is written there."""
    mark: str | None
    fate: Fate = "collected"


class Job(Protocol):
    """One collector set up with its tasks and its folder."""

    def run(self, count: int, episode: EpisodeFunction, *, workers: int = 1) -> Collected:
        """Collect until there are ``count`` episodes, one a task, and go on where an earlier run stopped. Lets ``Stop`` out, or ends."""


class Collector(ABC):
    """A collector under test."""

    name: ClassVar[str]
    workers: int = 1
    """How many episodes it can run at the same time."""
    filters: bool = False
    """Whether it can drop episodes by ``Outcome.keep``."""
    failed_rule: Rule | None = None
    """The rule that its documentation states for failed episodes; None if it states none."""
    dropped_rule: Rule | None = None
    """The same for those that its filter dropped."""

    @abstractmethod
    def job(self, tasks: Iterable[str], folder: Path) -> Job:
        """Set it up. ``tasks`` is a list, or an iterator that can be read once; ``folder`` may hold what an earlier job collected."""

    @abstractmethod
    def stored(self, folder: Path) -> Sequence[Stored]:
        """What is on disk, in the order in which it lies there; what cannot be read is left out."""

    def ledger(self, folder: Path) -> Path:  # noqa: ARG002 - a subclass needs it
        """The file that has one line an episode."""
        raise NotExercised(f"{self.name} keeps no file with a line for each episode")
