"""What the graph costs, as ratios, so that they mean the same on every machine.

    python benchmarks/graph/run.py

``against reading``: the time of ``build`` over the time of turning all ids of all prompts into bytes once, which nobody can do without.
``against half``: the time for these turns over that for half of them with the same prompts; 2 is linear. ``kept``: how many ids the graph
keeps for each one that is new. Prints a table and one line for each ratio that is worse than its bound; exit code 1 if there is any.
"""

from __future__ import annotations

import random
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from functools import partial

from pytest_harness.evidence import Call, Message, Sample, Times
from pytest_harness.graph import Graph, build
from pytest_harness.graph.prefixes import Prefix

MOST = {"against reading": 15.0, "against half": 3.0, "kept": 1.01}
"""The bounds: loose, as machines are shared."""
ROUNDS = 3


def chain(turns: int, prompt: int, step: int = 20) -> list[Call]:
    """One conversation that begins with a prompt of so many ids and grows by a step a turn."""
    chance, calls = random.Random(1), []
    ids = _some(chance, prompt)
    for index in range(turns):
        sampled = _some(chance, step // 2)
        calls.append(_call(index, ids, sampled))
        ids = [*ids, *sampled, *_some(chance, step - step // 2)]
    return calls


def equal_roots(turns: int, prompt: int) -> list[Call]:
    """The same prompt again and again."""
    chance = random.Random(2)
    ids = _some(chance, prompt)
    return [_call(index, ids, _some(chance, 50)) for index in range(turns)]


def other_roots(turns: int, prompt: int) -> list[Call]:
    """A prompt that differs in its first id: a nonce."""
    chance = random.Random(3)
    ids = _some(chance, prompt)
    return [_call(index, [index, *ids], _some(chance, 50)) for index in range(turns)]


WORKLOADS: dict[str, tuple[Callable[[int, int], list[Call]], int, int]] = {
    "200 turns from 50,000 ids on": (chain, 200, 50_000),
    "1,000 turns from 100 ids on": (chain, 1_000, 100),
    "200 equal roots of 25,000 ids": (equal_roots, 200, 25_000),
    "200 roots of 25,000 ids with a nonce": (other_roots, 200, 25_000),
}


def main() -> int:
    """Measure, print, judge."""
    worse = []
    for name, (make, turns, prompt) in WORKLOADS.items():
        calls = make(turns, prompt)
        first = calls[: turns // 2]
        whole, half, read = (_best(partial(work, some)) for work, some in ((build, calls), (build, first), (_read, calls)))
        ratios = {
            "against reading": whole / read,
            "against half": whole / half / (_ids(calls) / _ids(first) / 2),
            "kept": _kept(build(calls)) / _new(calls),
        }
        sys.stdout.write(f"{name}: {'; '.join(f'{key} {value:.2f}' for key, value in ratios.items())} ({whole:.2f} s here)\n")
        worse += [f"worse than its bound: {name}, {key} {value:.2f}, not {MOST[key]}" for key, value in ratios.items() if value > MOST[key]]
    sys.stdout.write("".join(f"{line}\n" for line in worse))
    return 1 if worse else 0


def _some(chance: random.Random, count: int) -> list[int]:
    return [chance.randrange(150_000) for _ in range(count)]


def _call(index: int, prompt: Sequence[int], sampled: Sequence[int]) -> Call:
    body = '{"messages": [{"role": "user", "content": "Go."}], "tools": [{"type": "function", "function": {"name": "bash"}}]}'
    return Call(
        index=index,
        id=f"call-{index}",
        dialect="chat",
        method="POST",
        path="/v1/chat/completions",
        streamed=False,
        received=Message(headers={}, body=body),
        prompt_ids=tuple(prompt),
        samples=(Sample(index=0, token_ids=tuple(sampled), logprobs=(-0.5,) * len(sampled), finish_reason="stop"),),
        outcome="complete",
        delivery="delivered",
        times=Times(received=float(index), delivered=index + 0.5),
    )


def _best(work: Callable[[], object]) -> float:
    """Seconds of the fastest round, which other processes have disturbed least."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _read(calls: list[Call]) -> int:
    return sum(len(array("Q", call.prompt_ids or ()).tobytes()) for call in calls)


def _ids(calls: list[Call]) -> int:
    return sum(len(call.prompt_ids or ()) for call in calls)


def _new(calls: list[Call]) -> int:
    """The distinct beginnings of all prompts and completions, counted by comparing each with all that came before."""
    seen: set[int] = set()
    for call in calls:
        whole = 0
        for one in (*(call.prompt_ids or ()), *(call.samples[0].token_ids or ())):
            whole = hash((whole, one))
            seen.add(whole)
    return len(seen)


def _kept(graph: Graph) -> int:
    """The ids in the tree of the graph's prompts."""
    *_, root = graph.turns[0].context.beginnings()
    waiting, found = [root], 0
    while waiting:
        prefix: Prefix = waiting.pop()
        found += len(prefix.own) // 8
        waiting += prefix.after.values()
    return found


if __name__ == "__main__":
    raise SystemExit(main())
