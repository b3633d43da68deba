"""What the episodes of a harness took: calls, turns, tokens, and what a solved one costs. Pure; absent is never zero."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_harness.contract import grade, validity
from pytest_harness.evidence.model import Evidence
from pytest_harness.graph import build, is_model_call


@dataclass(frozen=True)
class Prices:
    """Per million tokens, in whatever currency."""

    prompt: float
    sampled: float


@dataclass
class Account:
    """Everything that one harness, in one version, took in one sandbox on one engine. What counts for nothing took its tokens too."""

    harness: str
    version: str
    sandbox: str
    engine: str
    episodes: int = 0
    invalid: int = 0
    """Of them, those that say nothing of the harness."""
    graded: int = 0
    solved: int = 0
    calls: int = 0
    """Requests that reached the proxy."""
    turns: int = 0
    """Answered calls of the agent's conversation that were used."""
    side_calls: int = 0
    """Answered calls of no agent's conversation, such as titles and summaries."""
    subagent_turns: int = 0
    replies: int = 0
    """Choices that the engine sampled."""
    truncated: int = 0
    """Of them, those that a limit ended."""
    prompt_tokens: int = 0
    """Of the calls whose ids are known; what the engine had in its cache is counted too."""
    sampled_tokens: int = 0
    uncounted: int = 0
    """Answered model calls whose ids are not known: with one, nothing can be said of tokens and cost."""
    prices: Prices | None = field(default=None, repr=False)

    @property
    def truncated_share(self) -> float | None:
        """Of the replies; None where there are none."""
        return self.truncated / self.replies if self.replies else None

    @property
    def tokens(self) -> int | None:
        """Prompt and sampled; None where some are not known."""
        return None if self.uncounted else self.prompt_tokens + self.sampled_tokens

    @property
    def tokens_per_solved(self) -> float | None:
        """All tokens, those of failed episodes too, for each solved one; None where nothing was solved."""
        return self.tokens / self.solved if self.tokens is not None and self.solved else None

    @property
    def cost(self) -> float | None:
        """None without prices, or where some tokens are not known."""
        if self.prices is None or self.uncounted:
            return None
        return (self.prompt_tokens * self.prices.prompt + self.sampled_tokens * self.prices.sampled) / 1e6

    @property
    def cost_per_solved(self) -> float | None:
        """Likewise, of all episodes for each solved one."""
        return self.cost / self.solved if self.cost is not None and self.solved else None

    def add(self, evidence: Evidence) -> None:
        """Count one more episode."""
        graded = grade(evidence)
        self.episodes += 1
        self.invalid += not validity(evidence).valid
        self.graded += graded.state == "valid"
        self.solved += graded.solved
        self.calls += len(evidence.calls)
        for turn in build(evidence.calls).turns:
            self.turns += turn.role == "agent" and turn.fate == "used"
            self.side_calls += turn.role == "side"
            self.subagent_turns += turn.role == "subagent"
        for call in evidence.calls:
            self.replies += len(call.samples)
            self.truncated += sum(sample.finish_reason == "length" for sample in call.samples)
            ids = [sample.token_ids for sample in call.samples]
            self.prompt_tokens += len(call.prompt_ids or ())
            self.sampled_tokens += sum(len(each or ()) for each in ids)
            answered = call.outcome == "complete" and is_model_call(call)
            self.uncounted += answered and (call.prompt_ids is None or not ids or None in ids)


def account(evidences: Iterable[Evidence], prices: Prices | None = None) -> tuple[Account, ...]:
    """One account for each harness, version, sandbox and engine, in the order of their first; a copy of an episode counts once."""
    accounts: dict[tuple[str, ...], Account] = {}
    seen: set[str] = set()
    for evidence in evidences:
        manifest = evidence.manifest
        if manifest.attempt_id in seen:
            continue
        seen.add(manifest.attempt_id)
        key = (manifest.harness, manifest.versions.get("harness", ""), manifest.sandbox, manifest.engine)
        accounts.setdefault(key, Account(*key, prices=prices)).add(evidence)
    return tuple(accounts.values())
