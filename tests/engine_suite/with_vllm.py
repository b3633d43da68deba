"""Judges a real vLLM with the tiny model: with the flags that it needs, and with each of them left out in turn.

``python tests/engine_suite/with_vllm.py [NAME...]``; run on request, since it starts vLLM for each and needs its environment, which
``harness-conformance`` installs once (2 to 7 GB). Says for each start which requirements are red and which were to be; exit code 1 if
they differ anywhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_harness.engines.vllm.server import CPU_FLAGS, FLAGS, EngineError, cpu_command, serve
from pytest_harness.provision import Cache
from pytest_harness.provision.vllm import obtain_vllm

CONTEXT = "--max-model-len=32768"
KEY = "HARNESS_ENGINE_KEY"
STARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], set[str]]] = {
    "all": ((), (), set()),
    "reasoning": ((), ("--reasoning-parser=qwen3",), set()),
    "no-auto-tool-choice": (("--enable-auto-tool-choice",), (), {"PAR-201"}),
    "no-tools": (("--enable-auto-tool-choice", "--tool-call-parser=hermes"), (), {"PAR-201"}),
    "another-parser": (("--tool-call-parser=hermes",), ("--tool-call-parser=pythonic",), {"PAR-202", "PAR-205"}),
    "no-token-ids-as-tokens": (("--return-tokens-as-token-ids",), (), {"LGP-204"}),
    "no-logprobs-mode": (("--logprobs-mode=processed_logprobs",), (), {"LGP-205"}),
    "few-logprobs": ((), ("--max-logprobs=1",), {"LGP-206"}),
}
"""By name: flags left out, flags put in, and the requirements that must be red. A SHOULD is red without making pytest fail."""
ALWAYS: set[str] = {"TOK-208"}
"""A text that is forced on a model is not cut into the ids that its tokenizer gives, so its turns never come back with their ids."""
REFUSED = "no-parser", (("--tool-call-parser=hermes",), ())


def red(report: Path) -> dict[str, str]:
    """The requirements that are red in a report, each with the first that was expected and seen."""
    entries = json.loads(report.read_text())["requirements"]
    failed = [entry for entry in entries if entry["standing"] in ("failed", "error")]
    return {
        entry["id"]: f"expected {entry['findings'][0]['expected']}, seen {entry['findings'][0]['seen']}"
        if entry["findings"]
        else entry["reasons"][0]
        for entry in failed
    }


def main(names: list[str]) -> int:
    """Judge those that are named, or all."""
    vllm = obtain_vllm(Cache(), print)
    command = cpu_command(vllm.python, vllm.model)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="harness-with-vllm-") as scratch:
        for name in names or [*STARTS, REFUSED[0]]:
            left_out, put_in, expected = (*REFUSED[1], set()) if name == REFUSED[0] else STARTS[name]
            flags = [flag for flag in (*FLAGS, *CPU_FLAGS, CONTEXT) if flag not in left_out] + list(put_in)
            folder, started = Path(scratch) / name, time.monotonic()
            try:
                with serve(command, name="tiny", log=folder / "vllm.log", flags=flags) as engine:
                    ready = time.monotonic() - started
                    done = subprocess.run(
                        [
                            sys.executable,
                            "-m",
                            "pytest",
                            "-q",
                            "-p",
                            "no:cacheprovider",
                            f"--llm-url={engine.url}",
                            f"--llm-key-env={KEY}",
                            f"--report-dir={folder}",
                        ],
                        cwd=scratch,
                        env={**os.environ, KEY: engine.api_key},
                        capture_output=True,
                        text=True,
                        check=False,
                    )
            except EngineError as error:
                print(f"{name}: does not start: {error}", flush=True)
                wrong += name != REFUSED[0]
                continue
            if done.returncode not in (0, 1):
                print(f"{name}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}", flush=True)
                wrong += 1
                continue
            found, report = red(folder / "engine.json"), json.loads((folder / "engine.json").read_text())
            verdict = "as expected" if set(found) - ALWAYS == expected else f"EXPECTED {', '.join(sorted(expected)) or 'nothing'}"
            print(
                f"{name}: red {', '.join(sorted(found)) or 'nothing'}: {verdict}; exit code {done.returncode}; level {report['level']}, "
                f"logprobs {report['logprobs']}; {report['ran']} of {report['required']} ran; "
                f"ready in {ready:.0f} s, judged in {time.monotonic() - started - ready:.0f} s",
                flush=True,
            )
            for id_, finding in found.items():
                print(f"  {id_}: {finding}", flush=True)
            for entry in report["requirements"]:
                if entry["standing"] == "not_exercised":
                    print(f"  {entry['id']} not exercised: {'; '.join(entry['reasons'])[:300]}", flush=True)
            wrong += set(found) - ALWAYS != expected
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
