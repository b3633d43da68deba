"""``serve --train`` refuses, with one sentence and before anything listens, an engine whose replies may not be trained on."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_harness.capture.probe import Mode, Probe, ProbeError
from pytest_harness.capture.serve import Config, ServeError, serve
from pytest_harness.engines.scripted import Fault, Script, ScriptedEngine, Step
from pytest_harness.serving import BackgroundServer

WHOLE = Probe("served", "0.32.0", Mode("tokens"), Mode("tokens"), "processed")


def engine(faults=(), **flags):
    return ScriptedEngine(None, model="served", faults=faults, **flags)


@pytest.mark.parametrize(
    ("served", "sentence"),
    [
        (
            engine([Fault("null_ids")]),
            r"returns no prompt_token_ids and no token_ids, so it cannot serve the level tokens; vLLM returns it",
        ),
        (
            engine([Fault("missing_logprobs")]),
            r"returns no logprobs, so it cannot serve the level tokens; start vLLM without a --max-logprobs",
        ),
        (engine(processed=False), r"returns raw logprobs.*start vLLM with --logprobs-mode processed_logprobs$"),
        (engine(max_logprobs=1), r"could not be measured; let it tell the 5 likeliest tokens \(vLLM: --max-logprobs 5 or more\)$"),
        (engine(), r"says what chance has it say; name one that samples from weights$"),
        (ScriptedEngine(Script((Step("Hi."),))), r"says what a script makes it say; name one that samples from weights$"),
    ],
    ids=["without ids", "without logprobs", "raw", "unknown", "chance", "scripted"],
)
def test_an_engine_that_may_not_train_is_refused_naming_what_is_missing(tmp_path, served, sentence):
    with BackgroundServer(served) as server:
        url = server.listen().url
        with pytest.raises(ProbeError, match=sentence):
            serve(Config(llm_url=url, train=True, journal_dir=tmp_path / "journals"), told=lambda _: pytest.fail("it was served"))
    assert not (tmp_path / "journals").exists()


def test_an_engine_that_is_not_there_is_refused():
    with pytest.raises(ProbeError, match="cannot be reached"):
        serve(Config(llm_url="http://127.0.0.1:9", train=True), told=lambda _: pytest.fail("it was served"))


def test_a_lower_level_and_train_contradict_each_other():
    with pytest.raises(ServeError, match="--train and --level text contradict each other"):
        Config(llm_url="http://127.0.0.1:9", train=True, level="text")


def test_an_engine_that_returns_everything_may_train():
    WHOLE.require_training("http://127.0.0.1:9")
    assert WHOLE.speaks_against_training("http://127.0.0.1:9") is None


def test_an_engine_that_refuses_to_be_asked_may_not_train():
    refusing = dataclasses.replace(WHOLE, refusal="status 400: Unrecognized request argument: return_token_ids")
    with pytest.raises(ProbeError, match=r"refuses a tiny request with logprobs and token ids .*Unrecognized"):
        refusing.require_training("http://127.0.0.1:9")
    with pytest.raises(ProbeError, match="Unrecognized"):
        refusing.require("text", "http://127.0.0.1:9")
