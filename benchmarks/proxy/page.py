"""Makes docs/performance.md from the figures: what each subject adds to a direct call, beside the bounds we hold ourselves to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Figures = Mapping[str, Any]

BUFFERED_MS = 100
"""A first byte later than this came with the last one: a paced stream takes 204 ms."""


@dataclass(frozen=True)
class Yardstick:
    """What openenv 0.10.0 took where and when the bounds were set; beside what it takes here it says how fast this machine is."""

    figures: Mapping[str, float]

    def at_its_pace(self, title: str, ours: float, openenv: float) -> float | None:
        """What ours would be there, if it is to openenv as it is here. None for what does not go by the machine's pace."""
        return ours * self.figures[title] / openenv if title in self.figures else None


LATENCY = "added latency p50, c=1, ms"
RATE = "requests per second per core, c=64"
GROWTH = "growth per 1,000 prompt ids, ms"
YARDSTICK = Yardstick({LATENCY: 1.53, RATE: 373, GROWTH: 0.232})

PAGE = """\
# What the proxy costs

Made by `make benchmark`; nothing here is typed by hand. Measured {measured_at} on {machine}. The subject has one core,
client and engine the other; capture, authentication and validation are on. All subjects ran one after the other in this run, on loopback
and without think time, so ratios to *direct* are the worst case. *bare* is our server and our client to the engine with nothing between
them: what no proxy on this stack can go below on this machine. What the workloads are stands in `benchmarks/proxy/workload.py`.

The bounds were set on another machine, where openenv 0.10.0 added {openenv_there} ms to a call; in this run it added {openenv_here} ms.
*ours, there* is what ours comes to if it is to openenv there as it is here; it is given for what goes by the machine's pace and what both
have. No bound is met by it: the column *ours* decides.

{table}

A must that is missed is explained by the profile in [decisions.md](decisions.md), "Where the proxy's time goes".

{levels}
"""


def write_page(document: Figures, path: Path | None) -> str:
    """The page's text; written to ``path`` if there is one."""
    results = {result["subject"]: result for result in document["results"]}
    text = PAGE.format(
        measured_at=document["measured_at"],
        machine=document["machine"],
        openenv_there=YARDSTICK.figures[LATENCY],
        openenv_here=_cell(results["openenv"], lambda r: _added(r, results["direct"]), "{:.2f}") if "openenv" in results else "an unknown",
        table=_table(results),
        levels=_levels(results),
    )
    if path is not None:
        path.write_text(text, encoding="utf-8")
    return text


def _table(results: Mapping[str, Figures]) -> str:
    direct = results["direct"]
    peers = [name for name in ("ours", "bare", "openenv", "litellm") if name in results]
    rows: list[tuple[str, str, str, Callable[[Figures], float | None], str]] = [
        (LATENCY, "<= 0.40", "<= 0.25", lambda r: _added(r, direct), "{:.3f}"),
        (RATE, ">= 4,000", ">= 7,000", lambda r: 1000 / r["whole"][2]["cpu"], "{:,.0f}"),
        ("p99 / p50, c=64", "<= 4", "<= 2", lambda r: r["whole"][2]["p99"] / r["whole"][2]["p50"], "{:.1f}"),
        ("first byte of a paced stream after the engine's, p50, ms", "<= 1.0", "<= 0.6", lambda r: _first_byte(r, direct), "{:.2f}"),
        ("CPU per streamed token, µs", "<= 60", "<= 40", lambda r: _token_cpu(r, direct), "{:.1f}"),
        (GROWTH, "<= 0.025", "<= 0.010", lambda r: _slope(r, direct), "{:.4f}"),
        ("journal of a 50-turn session, MB", "<= 2", "<= 0.9", lambda r: r["journal_mb"], "{:.2f}"),
        ("memory of a live 50-turn session, MB", "<= 1", "<= 0.4", lambda r: r["session_mb"], "{:.2f}"),
        ("kept after close, kB", "<= 10", "", lambda r: r["closed_kb"], "{:.0f}"),
        ("idle process, MB", "<= 80", "<= 50", lambda r: r["idle_mb"], "{:.0f}"),
    ]

    lines = [f"| metric | must | aim | {' | '.join(peers)} | ours, there |", f"|---|---|---|{'---|' * len(peers)}---|"]
    for title, must, aim, value, form in rows:
        cells = [_cell(results[name], value, form) for name in peers]
        lines.append(f"| {title} | {must} | {aim} | {' | '.join(cells)} | {_there(results, title, value, form)} |")
    if (durable := results.get("ours, durable")) is not None:
        cell = _cell(durable, lambda r: max(each["rate"] for each in r["whole"]), "{:,.0f}")
        lines.append(f"| durable mode (synced per turn), requests per second | >= 1,000 | >= 2,000 | {cell} |{' |' * len(peers)}")
    return "\n".join(lines)


def _cell(result: Figures, value: Callable[[Figures], float | None], form: str) -> str:
    if result["error"]:
        return f"failed: {result['error'][:60]}"
    number = value(result)
    return "-" if number is None else form.format(number)


def _there(results: Mapping[str, Figures], title: str, value: Callable[[Figures], float | None], form: str) -> str:
    both = [results[name] for name in ("ours", "openenv") if name in results and not results[name]["error"]]
    numbers = [number for number in map(value, both) if number is not None]
    there = YARDSTICK.at_its_pace(title, *numbers) if len(numbers) == 2 else None
    return "" if there is None else form.format(there)


def _added(result: Figures, direct: Figures) -> float:
    """In ms, to a call that is alone."""
    added: float = result["whole"][0]["p50"] - direct["whole"][0]["p50"]
    return added


def _first_byte(result: Figures, direct: Figures) -> float:
    first: float = result["paced"]["first_byte_p50"] - direct["paced"]["first_byte_p50"]
    return first


def _token_cpu(result: Figures, direct: Figures) -> float | None:
    """In µs; None for a subject that gives the whole stream at once."""
    cpu: float = result["paced"]["cpu"]
    return None if _first_byte(result, direct) > BUFFERED_MS else cpu * 1000 / 50


def _slope(result: Figures, direct: Figures) -> float:
    """Added ms per 1,000 ids between the first and the hundredth turn, 500 ids apart."""
    added = {turn: result["growth"][turn] - direct["growth"][turn] for turn in ("1", "100")}
    slope: float = (added["100"] - added["1"]) / 49.5
    return slope


def _levels(results: Mapping[str, Figures]) -> str:
    lines = [
        "| subject | workload | c | requests/s | p50 ms | p99 ms | first byte p50 ms | CPU ms a call | not 200 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        for workload in ("whole", "streamed"):
            for level in result[workload] or ():
                figures = (level[key] for key in ("concurrency", "rate", "p50", "p99", "first_byte_p50", "cpu", "bad"))
                lines.append(f"| {name} | {workload} | {' | '.join(str(figure) for figure in figures)} |")
    return "\n".join(lines)
