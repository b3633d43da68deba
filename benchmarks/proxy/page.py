"""Makes docs/performance.md from the figures: what each subject adds to a direct call, beside the bounds we hold ourselves to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Figures = Mapping[str, Any]

BUFFERED_MS = 100
"""A first byte later than this came with the last one: a paced stream takes 204 ms."""

PAGE = """\
# What the proxy costs

Made by `make benchmark`; nothing here is typed by hand. Measured {measured_at} on {machine}. The subject has one core,
client and engine the other; capture, authentication and validation are on. All subjects ran one after the other in this run, on loopback
and without think time, so ratios to *direct* are the worst case. *bare* is our server and our client to the engine with nothing between
them: what no proxy on this stack can go below on this machine. What the workloads are stands in `benchmarks/proxy/workload.py`.

{table}

A must that is missed is explained by the profile in [decisions.md](decisions.md), "Where the proxy's time goes".

{levels}
"""


def write_page(document: Figures, path: Path | None) -> str:
    """The page's text; written to ``path`` if there is one."""
    results = {result["subject"]: result for result in document["results"]}
    text = PAGE.format(measured_at=document["measured_at"], machine=document["machine"], table=_table(results), levels=_levels(results))
    if path is not None:
        path.write_text(text, encoding="utf-8")
    return text


def _table(results: Mapping[str, Figures]) -> str:
    direct = results["direct"]
    peers = [name for name in ("ours", "bare", "openenv", "litellm") if name in results]
    rows: list[tuple[str, str, str, Callable[[Figures], float | None], str]] = [
        ("added latency p50, c=1, ms", "<= 0.40", "<= 0.25", lambda r: r["whole"][0]["p50"] - direct["whole"][0]["p50"], "{:.3f}"),
        ("requests per second per core, c=64", ">= 4,000", ">= 7,000", lambda r: 1000 / r["whole"][2]["cpu"], "{:,.0f}"),
        ("p99 / p50, c=64", "<= 4", "<= 2", lambda r: r["whole"][2]["p99"] / r["whole"][2]["p50"], "{:.1f}"),
        ("first byte of a paced stream after the engine's, p50, ms", "<= 1.0", "<= 0.6", lambda r: _first_byte(r, direct), "{:.2f}"),
        ("CPU per streamed token, µs", "<= 60", "<= 40", lambda r: _token_cpu(r, direct), "{:.1f}"),
        ("growth per 1,000 prompt ids, ms", "<= 0.025", "<= 0.010", lambda r: _slope(r, direct), "{:.4f}"),
        ("journal of a 50-turn session, MB", "<= 2", "<= 0.9", lambda r: r["journal_mb"], "{:.2f}"),
        ("memory of a live 50-turn session, MB", "<= 1", "<= 0.4", lambda r: r["session_mb"], "{:.2f}"),
        ("kept after close, kB", "<= 10", "", lambda r: r["closed_kb"], "{:.0f}"),
        ("idle process, MB", "<= 80", "<= 50", lambda r: r["idle_mb"], "{:.0f}"),
    ]

    lines = [f"| metric | must | aim | {' | '.join(peers)} |", f"|---|---|---|{'---|' * len(peers)}"]
    for title, must, aim, value, form in rows:
        cells = [_cell(results[name], value, form) for name in peers]
        lines.append(f"| {title} | {must} | {aim} | {' | '.join(cells)} |")
    if (durable := results.get("ours, durable")) is not None:
        cell = _cell(durable, lambda r: max(each["rate"] for each in r["whole"]), "{:,.0f}")
        lines.append(f"| durable mode (synced per turn), requests per second | >= 1,000 | >= 2,000 | {cell} |{' |' * (len(peers) - 1)}")
    return "\n".join(lines)


def _cell(result: Figures, value: Callable[[Figures], float | None], form: str) -> str:
    if result["error"]:
        return f"failed: {result['error'][:60]}"
    number = value(result)
    return "-" if number is None else form.format(number)


def _first_byte(result: Figures, direct: Figures) -> float:
    first: float = result["paced"]["first_byte_p50"] - direct["paced"]["first_byte_p50"]
    return first


def _token_cpu(result: Figures, direct: Figures) -> float | None:
    """In µs; None for a subject that gives the whole stream at once."""
    return None if _first_byte(result, direct) > BUFFERED_MS else result["paced"]["cpu"] * 1000 / 50


def _slope(result: Figures, direct: Figures) -> float:
    """Added ms per 1,000 ids between the first and the hundredth turn, 500 ids apart."""
    added = {turn: result["growth"][turn] - direct["growth"][turn] for turn in ("1", "100")}
    return (added["100"] - added["1"]) / 49.5


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
