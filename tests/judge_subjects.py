"""Runs the suite of one kind of subject on several subjects in one process, so that what it needs is imported once.

Usage: ``python judge_subjects.py OPTION FOLDER SELECTION SPEC...``; the selection is pytest's ``-k``.
Each subject's report is written to ``FOLDER/SPEC/``. It ends with whoever started it, however that ends.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PARENT = os.getppid()
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG; before anything that takes time
if os.getppid() != PARENT:
    sys.exit("the process that asks for the judgement is gone")

import pytest  # noqa: E402


def main(option: str, folder: Path, selection: str, specs: list[str]) -> None:
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
        code = pytest.main([*arguments, f"{option}={spec}", f"--report-dir={folder / spec}"])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            sys.exit(f"{spec} could not be judged: exit code {int(code)}")
        print(f"judged {spec} in {time.monotonic() - started:.1f} s, exit code {int(code)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
