"""A rollout's scripted engine has room for what real harnesses send."""

import httpx

from pytest_harness.engines.scripted import Script
from pytest_harness.rollouts.engines import engine_of

SCRIPT = Script.for_seam([("All of it is done.", [])], shell_tool=None, instruction="Do it.")
LARGEST = 131_072
"""What harnesses ask for in ``max_tokens`` where they know no better: a model's whole context."""


def test_it_takes_a_request_for_the_whole_context_of_a_common_model():
    with engine_of(SCRIPT, None, salt="") as engine:
        body = {"model": engine.upstream.model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": LARGEST}
        reply = httpx.post(engine.upstream.completions, json=body, headers=dict(engine.upstream.headers()))
    assert reply.status_code == 200, reply.text
