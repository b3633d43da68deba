"""The engine suite on the vLLM that the others are compared with: with the flags that we start it with, nothing speaks against it.

`make differential` runs this; the name keeps it out of a plain run of the tests. That each flag is missed where it is left out is shown by
``tests/engine_suite/with_vllm.py``, which starts vLLM once for each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from pytest_harness.engines.vllm import Serving

KEY = "HARNESS_ENGINE_KEY"
BY_CHANCE = {"TOK-208"}
"""A SHOULD: what is forced on a model is not cut into the ids that its tokenizer gives, so its turns do not come back with their ids."""


def test_the_engine_suite_finds_nothing_that_speaks_against_it(
    vllm: Serving, tmp_path: Path, run_pytest: Callable[..., CompletedProcess[str]]
) -> None:
    done = run_pytest(tmp_path, "-q", f"--llm-url={vllm.url}", f"--llm-key-env={KEY}", env={KEY: vllm.api_key})
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / ".harness" / "report" / "engine.json").read_text())
    assert {entry["id"] for entry in report["requirements"] if entry["standing"] in ("failed", "error")} == BY_CHANCE
    assert (report["level"], report["streamed"], report["logprobs"], report["may_train"]) == ("tokens", "tokens", "processed", None)
    assert report["stale"] == []
