"""Collects in processes that are killed at every point at which they touch the disk, and resumes each.

Usage: ``python killed.py FOLDER WORKERS``. Prints, as JSON, for each point the sorted ids and marks after the resume, and how many episodes
the resume ran; and how many lines were there when the process was killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from pytest_harness.collect import LEDGER, Plan, Result, Task, collect

TASKS = tuple(Task(f"task-{number}") for number in range(3))
POINTS = ("open", "os.rename", "os.truncate", "os.mkdir")


def place(folder, name):
    return folder / name / "episode.json"


def make(folder, episode):
    """Whole or not at all, as evidence is."""
    target = place(folder, episode.id)
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = target.with_name("staging")
    staging.write_text(episode.id)
    staging.rename(target)
    return Result(0.5, mark=episode.id)


def on_disk(folder):
    return lambda line: place(folder, line.episode).exists()


def collected(folder, workers):
    return collect(Plan(TASKS, attempts=2, workers=workers), lambda episode: make(folder, episode), folder, on_disk=on_disk(folder))


def killed_at(point, folder, workers):
    """Whether the process was killed: it is not where there are fewer points."""
    child = os.fork()
    if child == 0:
        seen = 0

        def count(event, _arguments):
            nonlocal seen
            if event in POINTS:
                seen += 1
                if seen == point:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        collected(folder, workers)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def main(root, workers):
    found = []
    point = 1
    while True:
        folder = root / str(point)
        folder.mkdir()
        if not killed_at(point, folder, workers):
            break
        ledger = folder / LEDGER
        left = ledger.read_bytes().count(b"\n") if ledger.exists() else 0
        collection = collected(folder, 1)
        on_disk_now = sorted(str(path.parent.relative_to(folder)) for path in folder.rglob("episode.json"))
        found.append(
            {
                "left": left,
                "ran": collection.ran,
                "ids": list(collection.episode_ids),
                "marks": [line.mark for line in collection.lines],
                "on_disk": on_disk_now,
                "mean": collection.tally.mean,
                "lines": ledger.read_bytes().count(b"\n"),
            }
        )
        point += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
