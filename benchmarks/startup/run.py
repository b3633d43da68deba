"""What a host pays for having the plugin installed and asking nothing of it, and for loading the fixtures.

    python benchmarks/startup/run.py

Collects a hundred empty tests without the plugin, with it, and with ``pytest_harness.fixtures`` too, in turn, each in a process of its own,
and compares the CPU time of the processes: the smallest of each, as everything else a machine does only adds to it. ``ratio`` is over a run
without the plugin. Prints a line for each and one for each that costs more than its bound; exit code 1 if there is any.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 10
MOST_RATIO = 1.15
MOST_MILLISECONDS = 50.0
"""Of a machine that is not much slower than a laptop; the ratio is what is compared between machines."""
KINDS = {"without": ("-p", "no:harness"), "inert": (), "fixtures": ("-p", "pytest_harness.fixtures")}


def cpu_seconds(folder: Path, *arguments: str) -> float:
    """The CPU time of one collection, the process and its children."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *arguments]
    process = subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Measure and print; the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_host.py").write_text("".join(f"def test_{number}(): pass\n" for number in range(100)))
        spent: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(ROUNDS + 1):
            for kind, arguments in KINDS.items():
                spent[kind].append(cpu_seconds(folder, *arguments))
    least = {kind: min(each[1:]) for kind, each in spent.items()}  # the first round compiles
    complaints = []
    for kind, seconds in least.items():
        added, ratio = 1000 * (seconds - least["without"]), seconds / least["without"]
        print(f"{kind:9} {1000 * seconds:7.1f} ms of CPU  added {added:6.1f} ms  ratio {ratio:.3f}")
        if ratio > MOST_RATIO or added > MOST_MILLISECONDS:
            complaints.append(f"{kind} costs more than {MOST_MILLISECONDS:g} ms or {MOST_RATIO:g} times a run without the plugin")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
