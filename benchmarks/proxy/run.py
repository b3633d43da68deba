"""Measures what a capture proxy costs: direct, ours, and peers, side by side in one run, one core for each subject.

    python benchmarks/proxy/run.py                       # direct, bare, ours, openenv, litellm; writes docs/performance.md
    python benchmarks/proxy/run.py --subject ours --seconds 0.5 --no-page

Client and engine are pinned to core 1, the subject to core 0. Read the figures as ratios to what stands beside them: absolute ones
depend on the machine.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from page import write_page
from rich.console import Console
from subjects import Subject
from workload import GROWING, PACED, SAMPLED, TURNS, Client, Engine, head, request_body

SUBJECT_CORE, DRIVER_CORE = 0, 1
CALLS_PER_SESSION = 4
SESSION_TURNS = 50
WARMING_ROUNDS, KEEPING_ROUNDS = 4, 6


@dataclass
class Level:
    """One workload at one concurrency. Times in ms, CPU in ms a call."""

    concurrency: int
    calls: int
    rate: float
    p50: float
    p99: float
    first_byte_p50: float
    first_byte_p99: float
    cpu: float
    bad: int


@dataclass
class Result:
    """Everything measured of one subject; None where it does not apply."""

    subject: str
    idle_mb: float | None = None
    whole: list[Level] | None = None
    streamed: list[Level] | None = None
    paced: Level | None = None
    growth: dict[int, float] | None = None
    """Turn -> ms of one call, median of neighbouring turns over several sessions."""
    session_mb: float | None = None
    """Resident memory for each live session of 50 turns."""
    closed_kb: float | None = None
    """Resident memory kept for each after it was closed."""
    journal_mb: float | None = None
    """Journal of one session of 50 turns."""
    error: str | None = None


async def level(subject: Subject, concurrency: int, body: bytes, seconds: float, *, per_session: int = CALLS_PER_SESSION) -> Level:
    """Ask as fast as the answers come, for so many seconds."""
    sessions = await subject.sessions(max(concurrency, 200))
    heads = [head(path, key, len(body)) for path, key in sessions]
    clients = [await Client.open(subject.port) for _ in range(concurrency)]
    totals: list[float] = []
    firsts: list[float] = []
    bad = 0
    turn = 0
    gc.collect()
    gc.disable()
    cpu, started = subject.cpu(), time.perf_counter()
    end = started + seconds

    async def ask(client: Client) -> None:
        nonlocal bad, turn
        count = 0
        mine = heads[0]
        while time.perf_counter() < end:
            if count % per_session == 0:
                mine = heads[turn % len(heads)]
                turn += 1
            count += 1
            answer = await client.ask(mine, body)
            bad += answer.status != 200
            totals.append(answer.total)
            firsts.append(answer.first_byte)

    await asyncio.gather(*(ask(client) for client in clients))
    elapsed, spent = time.perf_counter() - started, subject.cpu() - cpu
    gc.enable()
    for client in clients:
        client.close()
    await subject.drop(sessions)
    return Level(
        concurrency=concurrency,
        calls=len(totals),
        rate=round(len(totals) / elapsed, 1),
        p50=percentile(totals, 50),
        p99=percentile(totals, 99),
        first_byte_p50=percentile(firsts, 50),
        first_byte_p99=percentile(firsts, 99),
        cpu=round(spent * 1e3 / len(totals), 4),
        bad=bad,
    )


def percentile(values: list[float], percent: float) -> float:
    """In ms."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(percent / 100 * len(ordered)))] * 1e3, 4)


async def growth(subject: Subject, sessions: int = 5) -> dict[int, float]:
    """How the cost of a call grows with the turns of its session."""
    bodies = [request_body(turn, mark=GROWING) for turn in range(TURNS)]
    times: list[list[float]] = [[] for _ in range(TURNS)]
    client = await Client.open(subject.port)
    for _ in range(sessions):
        opened = await subject.sessions(1)
        path, key = opened[0]
        for turn, body in enumerate(bodies):
            answer = await client.ask(head(path, key, len(body)), body)
            if answer.status != 200:
                raise RuntimeError(f"{subject.name} answered {answer.status} at turn {turn + 1}")
            times[turn].append(answer.total * 1e3)
        await subject.drop(opened)
    client.close()
    near = {turn: times[max(0, turn - 3) : turn + 2] for turn in (1, 25, 50, 100)}
    return {turn: round(statistics.median(value for values in window for value in values), 4) for turn, window in near.items()}


async def memory(subject: Subject, count: int = 10) -> tuple[float, float, float | None]:
    """MB for each live session of 50 turns, KB kept for each after close, and MB of its journal."""
    bodies = [request_body(turn, mark=GROWING) for turn in range(SESSION_TURNS)]
    client = await Client.open(subject.port)

    async def run(sessions: list[tuple[str, str]]) -> None:
        for path, key in sessions:
            for body in bodies:
                await client.ask(head(path, key, len(body)), body)

    for _ in range(WARMING_ROUNDS):  # until what was freed is used again before anything new is asked for
        warm = await subject.sessions(count)
        await run(warm)
        await subject.drop(warm)
    journal = subject.journal_bytes()
    before = subject.memory()
    sessions = await subject.sessions(count)
    await run(sessions)
    live = (subject.memory() - before) / count
    written = None if journal is None else round(((subject.journal_bytes() or 0) - journal) / count / 1e6, 3)
    await subject.drop(sessions)
    for _ in range(KEEPING_ROUNDS - 1):
        again = await subject.sessions(count)
        await run(again)
        await subject.drop(again)
    kept = (subject.memory() - before) * 1024 / (KEEPING_ROUNDS * count)
    client.close()
    return round(live, 3), round(kept, 1), written


async def measure(name: str, engine: int, seconds: float, *, durable: bool = False) -> Result:
    """Everything of one subject."""
    subject = Subject(name, engine, SUBJECT_CORE, durable=durable)
    result = Result(f"{name}, durable" if durable else name)
    whole, streamed, paced = request_body(), request_body(stream=True), request_body(mark=PACED, stream=True)
    try:
        await subject.start()
        result.idle_mb = None if name == "direct" else round(subject.memory(), 1)
        await level(subject, 4, whole, 0.5)
        await level(subject, 4, streamed, 0.5)
        result.whole = [await level(subject, concurrency, whole, seconds) for concurrency in (1, 16, 64, 256)]
        if durable:
            return result
        result.streamed = [await level(subject, concurrency, streamed, seconds) for concurrency in (1, 16, 64)]
        result.paced = await level(subject, 4, paced, max(seconds, 2.0), per_session=10**6)
        result.growth = await growth(subject)
        if name != "direct":
            result.session_mb, result.closed_kb, result.journal_mb = await memory(subject)
    except Exception as error:  # noqa: BLE001 (a peer that fails is a row that says so)
        result.error = f"{type(error).__name__}: {error}"
    finally:
        subject.stop()
    return result


async def run(subjects: list[str], seconds: float, console: Console) -> list[Result]:
    """Measure one after the other; direct first and last, so that a drift of the machine shows."""
    os.sched_setaffinity(0, {DRIVER_CORE})
    server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", 0, backlog=4096)
    engine = server.sockets[0].getsockname()[1]
    results = []
    for name in subjects:
        console.print(f"measuring {name}")
        results.append(await measure(name, engine, seconds))
        if name == "ours":
            console.print("measuring ours, durable")
            results.append(await measure(name, engine, seconds, durable=True))
    return results


def main(
    subject: Annotated[list[str] | None, typer.Option(help="direct, bare, ours, openenv or litellm; repeatable; all by default.")] = None,
    seconds: Annotated[float, typer.Option(help="Seconds for each level.")] = 2.0,
    page: Annotated[bool, typer.Option(help="Write docs/performance.md.")] = True,
    out: Annotated[Path, typer.Option(help="Where the figures go as JSON.")] = Path(".harness/benchmarks/proxy.json"),
) -> None:
    """Measure and report."""
    console = Console()
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("two cores are needed: one for the subject, one for client and engine")
    names = ["direct", *[name for name in subject or ["bare", "ours", "openenv", "litellm"] if name != "direct"]]
    results = uvloop.run(run(names, seconds, console))
    figures = {
        "measured_at": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}",
        "tokens_a_stream": SAMPLED,
        "results": [asdict(result) for result in results],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(figures, indent=1) + "\n")
    console.print(
        write_page(json.loads(out.read_text()), Path("docs/performance.md") if page else None),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    typer.run(main)
