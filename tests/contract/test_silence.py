"""How long a harness waits for the first byte of a stream."""

from dataclasses import replace

import pytest

from pytest_harness.contract.judge import judge_one
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import apply

REQUIREMENT = load_catalogue()["STR-015"]


def with_delivered(evidence, change):
    return replace(
        evidence,
        calls=tuple(
            call.model_copy(update={"delivered": call.delivered.model_copy(update={"body": change(call.delivered.body)})})
            for call in evidence.calls
        ),
    )


def test_a_minute_of_silence_is_found(healthy):
    judged = judge_one(apply("silent_prefill", healthy.pi()), REQUIREMENT)
    assert judged.result == "failed"
    assert [finding.expected for finding in judged.findings] == ["a byte within 60 s, be it to keep the connection"]


@pytest.mark.parametrize("sign", [": keep-alive\n\n", "\n"])
def test_what_keeps_the_connection_ends_the_silence(healthy, sign):
    evidence = with_delivered(apply("silent_prefill", healthy.pi()), lambda body: sign + body)
    assert judge_one(evidence, REQUIREMENT).result == "passed"


def test_without_times_nobody_can_tell(healthy):
    evidence = healthy.pi()
    untimed = tuple(call.model_copy(update={"times": call.times.model_copy(update={"first_byte": None})}) for call in evidence.calls)
    assert judge_one(replace(evidence, calls=untimed), REQUIREMENT).result == "unverifiable"
