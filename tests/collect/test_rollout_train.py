"""``rollout --train`` refuses, with one sentence and before anything is installed, an engine whose replies may not be trained on."""

from __future__ import annotations

import pytest
from rich.console import Console

from pytest_harness.collect import CollectError
from pytest_harness.collect.command import ATTACHED, Asked, collect_rollouts, specs_of
from pytest_harness.engines.scripted import Fault, ScriptedEngine
from pytest_harness.rollouts.engines import attached
from pytest_harness.serving import BackgroundServer

KEY = "engine-key-canary-0123456789"


def refusal(tmp_path, **options):
    with pytest.raises(CollectError) as error:
        collect_rollouts(Asked(["pi"], ["edit_file"], train=True, **options), tmp_path / "out", Console(quiet=True))
    assert not (tmp_path / "out").exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"faults": [Fault("null_ids")]}, "returns no prompt_token_ids and no token_ids, so it cannot serve the level tokens"),
        ({"processed": False}, "start vLLM with --logprobs-mode processed_logprobs"),
        ({"max_logprobs": 1}, "could not be measured; let it tell the 5 likeliest tokens"),
        ({"api_key": KEY}, "refuses the key"),
        ({}, "says what chance has it say; name one that samples from weights"),
    ],
    ids=["without ids", "raw", "unknown", "another key", "without weights"],
)
def test_an_endpoint_that_may_not_train_is_refused(tmp_path, flags, sentence):
    with BackgroundServer(ScriptedEngine(None, **flags)) as server:
        said = refusal(tmp_path, llm_url=server.listen().url)
    assert said.startswith("--train: ")
    assert sentence in said


def test_an_endpoint_that_is_not_there_is_refused(tmp_path):
    assert "cannot be reached" in refusal(tmp_path, llm_url="http://127.0.0.1:9")


@pytest.mark.parametrize("engine", ["scripted", "vllm"])
def test_an_engine_that_follows_a_script_is_no_source_of_training_data(tmp_path, engine):
    assert "never training data; name yours with --llm-url" in refusal(tmp_path, engine=engine)


def test_an_endpoint_is_attached_without_a_script_and_for_training_only_if_it_was_asked_for():
    engine = ScriptedEngine(None, model="served", api_key=KEY)
    engine.version = "0.32.0"  # that of an engine with weights
    with BackgroundServer(engine) as server:
        url = server.listen().url
        found = [attached(url, api_key=KEY, train=train) for train in (False, True)]
    assert [(each.model, each.steered, each.purpose, each.log) for each in found] == [
        ("served", False, "eval", None),
        ("served", False, "train", None),
    ]
    assert KEY not in repr(found)


def test_the_evidence_of_an_endpoint_is_kept_apart():
    assert {spec.engine for spec in specs_of(Asked(["pi"], llm_url="http://127.0.0.1:9"))} == {ATTACHED}
