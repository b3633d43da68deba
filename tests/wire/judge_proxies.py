"""Runs the wire suite on several proxies in one process, so that the SDKs are imported once.

Usage: ``python judge_proxies.py FOLDER SELECTION SPEC...``; the selection is pytest's ``-k``.
Each proxy's report is written to ``FOLDER/SPEC/wire.json``.
"""

import sys
import time
from pathlib import Path

import pytest


def main(folder: Path, selection: str, specs: list[str]) -> None:
    for spec in specs:
        started = time.monotonic()
        arguments = [
            "-q",
            "-p",
            "no:cacheprovider",
            "--no-header",
            "--no-summary",
            "--tb=no",
            "--import-mode=importlib",
            "-k",
            selection,
        ]
        code = pytest.main([*arguments, f"--proxy={spec}", f"--report-dir={folder / spec}"])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            sys.exit(f"{spec} could not be judged: exit code {int(code)}")
        print(f"judged {spec} in {time.monotonic() - started:.1f} s, exit code {int(code)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
