"""What so many rollouts at the same time need, computed from what was measured.

    python benchmarks/plan.py                                       # for a thousand and for a hundred thousand
    python benchmarks/plan.py 5000 --turns 200 --turn-seconds 8     # of yours
    python benchmarks/plan.py --page                                # into docs/scaling.md, after a new measurement

What was measured is read where it is written: docs/performance.md (``make benchmark``), benchmarks/leaks/measured.json and the limits of
the seam table. What is assumed are the options, and their values stand above the table.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_harness.seams.limits import Limits

ROOT = Path(__file__).resolve().parents[1]
PERFORMANCE = ROOT / "docs" / "performance.md"
LEAKS = ROOT / "benchmarks" / "leaks" / "measured.json"
PAGE = ROOT / "docs" / "scaling.md"
BEGIN, END = "<!-- plan: made by benchmarks/plan.py -->\n\n", "\n<!-- /plan -->\n"
OURS = 3
"""The column of performance.md."""
SESSION_TURNS = 50
"""Of the sessions that were measured there."""


@dataclass(frozen=True)
class Measured:
    """Constants of this project, each read from where it was written."""

    calls_per_second: float
    """Of one core of the proxy, replies whole."""
    prompt_seconds: float
    """Of a core of the proxy, for each token of a prompt."""
    token_seconds: float
    """Of a core of the proxy, for each token that it streams."""
    proxy_mb: float
    """Of a worker of the proxy that does nothing."""
    session_mb: float
    """Memory of a live session, a turn."""
    journal_mb: float
    """On the disk, a turn."""
    process_mb: float
    """Of a process that makes rollouts."""
    sandbox_mb: float
    """What a local sandbox may take at most, unless its row says otherwise."""


@dataclass(frozen=True)
class Assumed:
    """What a reader may know better of their own rollouts."""

    turns: int
    turn_seconds: float
    prompt: int
    sampled: int
    cached: float
    busy: float


def measured(performance: str, leaks: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Measured:
    """The constants. Raises ValueError where one is not written there any more."""
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in performance.splitlines() if line.startswith("| ")]
    found = {row[0]: row[OURS] for row in rows if len(row) > OURS}

    def constant(name: str) -> float:
        if name not in found:
            raise ValueError(f"docs/performance.md has no row {name!r}; adapt benchmarks/plan.py to what benchmarks/proxy writes")
        return float(found[name].replace(",", ""))

    return Measured(
        calls_per_second=constant("requests per second per core, c=64"),
        prompt_seconds=constant("growth per 1,000 prompt ids, ms") / 1e6,
        token_seconds=constant("CPU per streamed token, µs") / 1e6,
        proxy_mb=constant("idle process, MB"),
        session_mb=constant("memory of a live 50-turn session, MB") / SESSION_TURNS,
        journal_mb=constant("journal of a 50-turn session, MB") / SESSION_TURNS,
        process_mb=leaks["figures"]["resident memory, MB"]["end"],
        sandbox_mb=Limits().memory_mb,
    )


def plan(rollouts: int, known: Measured, assumed: Assumed) -> dict[str, float]:
    """What so many at the same time need. Each scales with their number, save the proxy's workers, which are whole."""
    calls = rollouts / assumed.turn_seconds
    core_seconds = 1 / known.calls_per_second + assumed.prompt * known.prompt_seconds + assumed.sampled * known.token_seconds
    workers = math.ceil(calls * core_seconds / assumed.busy)
    ended = calls / assumed.turns
    return {
        "calls a second": calls,
        "workers of the proxy, a core each": workers,
        "memory of the proxy, GB": (workers * known.proxy_mb + rollouts * assumed.turns * known.session_mb) / 1e3,
        "journals of those that run, GB": rollouts * assumed.turns * known.journal_mb / 1e3,
        "journals written a day, GB": calls * 86400 * known.journal_mb / 1e3,
        "tokens sampled a second": calls * assumed.sampled,
        "prompt tokens a second, in all": calls * assumed.prompt,
        "prompt tokens a second, not in the engine's cache": calls * assumed.prompt * (1 - assumed.cached),
        "processes that make rollouts, GB": rollouts * known.process_mb / 1e3,
        "sandboxes at once": rollouts,
        "sandboxes begun a minute": ended * 60,
        "local sandboxes at their limit, GB": rollouts * known.sandbox_mb / 1e3,
        "rollouts ended an hour": ended * 3600,
    }


def table(counts: Sequence[int], known: Measured, assumed: Assumed) -> str:
    """What is assumed, and what follows, in Markdown."""
    lines = [
        f"Assumed of a rollout: {assumed.turns} turns, {assumed.turn_seconds:g} s from one call to the next, {assumed.prompt:,} tokens of",
        f"prompt and {assumed.sampled:,} sampled a turn, {assumed.cached:.0%} of the prompt in the engine's cache. A core of the",
        f"proxy is kept {assumed.busy:.0%} busy, and every reply is streamed.",
        "",
        "| rollouts at the same time | " + " | ".join(f"{count:,}" for count in counts) + " |",
        "|---|" + "---|" * len(counts),
    ]
    needs = [plan(count, known, assumed) for count in counts]
    lines += [f"| {what} | " + " | ".join(_shown(each[what]) for each in needs) + " |" for what in needs[0]]
    return "\n".join(lines) + "\n"


def _shown(number: float) -> str:
    """Two digits that count: no more is known."""
    if number < 10:
        return f"{number:.2g}"
    rounded = round(number, 1 - math.floor(math.log10(number)))
    return f"{rounded:,.0f}"


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("rollouts", type=int, nargs="*", default=[1_000, 100_000], help="at the same time")
    options.add_argument("--turns", type=int, default=50, help="calls of a rollout")
    options.add_argument("--turn-seconds", type=float, default=15.0, help="from one call to the next: the engine, and what the agent does")
    options.add_argument("--prompt", type=int, default=16_000, help="tokens of the prompt of a turn, on average")
    options.add_argument("--sampled", type=int, default=300, help="tokens that a turn samples")
    options.add_argument("--cached", type=float, default=0.9, help="the part of the prompts that the engine has in its cache")
    options.add_argument("--busy", type=float, default=0.5, help="the part of its time that a core of the proxy may work")
    options.add_argument("--page", action="store_true", help="write it into docs/scaling.md")
    asked = options.parse_args()
    for name in ("turns", "turn_seconds", "prompt", "sampled", "busy"):
        if getattr(asked, name) <= 0:
            options.error(f"--{name.replace('_', '-')} must be more than 0")
    if any(count < 1 for count in asked.rollouts):
        options.error("at least one rollout is needed")
    if not 0 <= asked.cached <= 1 or asked.busy > 1:
        options.error("--cached and --busy are parts, from 0 to 1")
    return asked


def main() -> int:
    """Print the plan, or write it into the page; the exit code."""
    asked = _options()
    assumed = Assumed(asked.turns, asked.turn_seconds, asked.prompt, asked.sampled, asked.cached, asked.busy)
    try:
        known = measured(PERFORMANCE.read_text(encoding="utf-8"), json.loads(LEAKS.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 4
    text = table(asked.rollouts, known, assumed)
    if not asked.page:
        print(text, end="")
        return 0
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
