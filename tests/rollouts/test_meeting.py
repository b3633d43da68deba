"""Where several rollouts meet at one engine: none is answered before all have asked, and each is answered by its own."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest

from pytest_harness.engines.scripted import Script, Step
from pytest_harness.rollouts.engines import engine_of
from pytest_harness.rollouts.meeting import Meeting, met


@pytest.fixture
def engines():
    """An engine for each of three rollouts, each with words of its own, at one meeting."""
    with (
        engine_of(Script((Step("alder"),)), None, salt="1") as alder,
        engine_of(Script((Step("birch"),)), None, salt="2") as birch,
        engine_of(Script((Step("cedar"),)), None, salt="3") as cedar,
        met([alder, birch, cedar]) as meeting,
    ):
        yield meeting


@pytest.fixture
def ask(engines):
    """Asks the engine of this number; what it says, or will say."""

    def say(number: int) -> str:
        upstream = engines[number].upstream
        body = json.dumps({"model": upstream.model, "messages": [{"role": "user", "content": "Who are you?"}]})
        reply = httpx.post(upstream.completions, content=body, headers=dict(upstream.headers()), timeout=60)
        return reply.json()["choices"][0]["message"]["content"]

    with ThreadPoolExecutor() as pool:
        yield lambda number: pool.submit(say, number)


def said(answers: list[Future[str]]) -> list[str]:
    return [answer.result(timeout=60) for answer in answers]


def test_each_is_answered_by_its_own_engine_though_all_ask_the_same_at_one_address(engines, ask):
    assert len({engine.upstream.url.rsplit("/", 2)[0] for engine in engines}) == 1
    assert said([ask(number) for number in (2, 0, 1)]) == ["cedar", "alder", "birch"]


async def test_no_engine_is_asked_before_the_last_rollout_has_asked():
    asked = []

    async def engine(scope, receive, send):
        asked.append(scope["path"])

    meeting = Meeting({"0": engine, "1": engine})
    first = asyncio.ensure_future(meeting({"type": "http", "path": "/0/v1/chat/completions"}, None, None))
    await asyncio.sleep(0)
    assert asked == []
    await meeting({"type": "http", "path": "/1/v1/chat/completions"}, None, None)
    await first
    assert sorted(asked) == ["/0/v1/chat/completions", "/1/v1/chat/completions"]


def test_who_has_left_is_not_waited_for(engines, ask):
    engines[1].leave()
    answers = [ask(0)]
    engines[2].leave()
    assert said(answers) == ["alder"]
    assert said([ask(0)]) == ["alder"]


def test_a_path_of_nobody_is_not_found(engines):
    url = engines[0].upstream.completions.replace("/0/", "/9/")
    assert httpx.post(url, json={}).status_code == 404


def test_who_is_alone_asks_the_engine_itself():
    with engine_of(Script((Step("alder"),)), None, salt="") as engine, met([engine]) as met_engines:
        assert list(met_engines) == [engine]
