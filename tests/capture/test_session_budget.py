"""Budgets: exact with any number of calls at once, in threads and in processes; what a stop reply is; what is charged."""

import asyncio
import contextlib
import multiprocessing
import threading
from pathlib import Path

import openai.types.chat as chat_types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.capture import Upstream
from pytest_harness.capture.admission import REFUSED_AFTER, Forward, Refuse, Stop
from pytest_harness.capture.budget import TOKENS_PER_CALL, Budget, BudgetError, LocalAccount
from pytest_harness.capture.policy import SamplingPolicy
from pytest_harness.capture.sessions import Sessions
from pytest_harness.capture.shared import SharedAccount

CHAT = {"model": "m", "messages": []}


@pytest.fixture
def open_session(tmp_path: Path):
    def open_one(**settings):
        return Sessions().open(Upstream(url="http://engine", model="m"), tmp_path / "calls.ndjson", **settings)

    return open_one


@pytest.fixture(params=["local", "shared"])
def account(request, tmp_path: Path):
    return LocalAccount() if request.param == "local" else SharedAccount(tmp_path)


def test_of_64_calls_at_once_exactly_the_budget_is_forwarded(open_session) -> None:
    session = open_session(budget=Budget(calls=20))

    async def one(barrier: asyncio.Barrier):
        with session.call() as running:
            await barrier.wait()
            admission = session.admit(CHAT, running)
            await barrier.wait()
            return admission

    async def everyone():
        barrier = asyncio.Barrier(64)
        return await asyncio.gather(*(one(barrier) for _ in range(64)))

    admissions = asyncio.run(everyone())
    assert sum(isinstance(admission, Forward) for admission in admissions) == 20
    assert sum(isinstance(admission, Stop) for admission in admissions) == 44
    assert session.account.spent().charged == 20


def test_threads_cannot_overdraw_an_account(account) -> None:
    granted = []
    barrier = threading.Barrier(8)

    def spend() -> None:
        barrier.wait()
        granted.extend(account.charge(Budget(calls=20, tokens=150), 10) for _ in range(8))

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(filter(None, granted)) == [10] * 15
    spent = account.spent()
    assert (spent.charged, spent.tokens, spent.stopped) == (15, 150, 49)


def _spend(folder: Path, barrier, results) -> None:
    account = SharedAccount(folder)
    barrier.wait()
    results.put([(account.arrive(), account.charge(Budget(calls=20), 1)) for _ in range(32)])


def test_processes_cannot_overdraw_an_account_and_every_call_has_an_index_of_its_own(tmp_path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [context.Process(target=_spend, args=(tmp_path, barrier, results)) for _ in range(2)]
    for process in processes:
        process.start()
    outcomes = [pair for _ in processes for pair in results.get(timeout=60)]
    for process in processes:
        process.join()
    assert sorted(index for index, _ in outcomes) == list(range(64))
    assert sum(granted is not None for _, granted in outcomes) == 20


@given(
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), max_size=20),
)
@settings(deadline=None)
def test_for_every_budget_of_tokens_no_more_is_ever_granted_and_what_is_given_back_can_be_used(limit, calls) -> None:
    account, budget = LocalAccount(), Budget(tokens=limit)
    sampled = 0
    for wanted, used in calls:
        granted = account.charge(budget, wanted)
        if granted is None:
            assert sampled == limit
            continue
        assert granted == min(wanted, limit - sampled)
        sampled += min(used, granted)
        account.give_back(granted - min(used, granted))
        assert account.spent().tokens == sampled <= limit


def test_a_call_may_sample_what_is_left_and_gives_back_what_it_did_not(open_session) -> None:
    session = open_session(budget=Budget(tokens=100))

    async def calls():
        with session.call() as running:
            assert session.admit({**CHAT, "max_tokens": 60}, running) == Forward()
            with session.call() as beside:
                assert session.admit({**CHAT, "max_completion_tokens": 60}, beside).edits == {"max_completion_tokens": 40}
                with session.call() as third:
                    assert isinstance(session.admit(CHAT, third), Stop)
                beside.sampled = 40
            running.sampled = 10
        with session.call() as last:
            assert session.admit(CHAT, last).edits == {"max_tokens": 50}

    asyncio.run(calls())
    assert session.account.spent().tokens == 50


def test_several_choices_share_what_is_left(open_session) -> None:
    session = open_session(budget=Budget(tokens=10))

    async def calls():
        with session.call() as running:
            assert session.admit({**CHAT, "n": 4}, running).edits == {"max_tokens": 2}
            running.sampled = 8
        with session.call() as running:
            assert isinstance(session.admit({**CHAT, "n": 4}, running), Stop)

    asyncio.run(calls())


def test_a_call_that_names_no_limit_reserves_a_fixed_one(open_session) -> None:
    session = open_session(budget=Budget(tokens=10 * TOKENS_PER_CALL))

    async def call():
        with session.call() as running:
            assert session.admit(CHAT, running).edits == {"max_tokens": TOKENS_PER_CALL}
            assert session.account.spent().tokens == TOKENS_PER_CALL

    asyncio.run(call())
    assert session.account.spent().tokens == 0


def test_a_call_is_charged_though_it_fails(open_session) -> None:
    session = open_session(budget=Budget(calls=1))

    async def calls():
        with contextlib.suppress(ZeroDivisionError), session.call() as running:
            session.admit(CHAT, running)
            raise ZeroDivisionError
        with session.call() as running:
            return session.admit(CHAT, running)

    assert isinstance(asyncio.run(calls()), Stop)


def test_what_the_policy_refuses_is_not_charged(open_session) -> None:
    session = open_session(budget=Budget(calls=1), policy=SamplingPolicy(constrained="refuse"))

    async def call():
        with session.call() as running:
            return session.admit({**CHAT, "tool_choice": "required"}, running)

    assert isinstance(asyncio.run(call()), Refuse)
    assert session.account.spent().charged == 0


def test_a_harness_that_words_do_not_end_is_ended_by_an_error(open_session) -> None:
    session = open_session(budget=Budget(calls=0))

    async def calls():
        admissions = []
        for _ in range(REFUSED_AFTER + 1):
            with session.call() as running:
                admissions.append(session.admit(CHAT, running))
        return admissions

    *stops, last = asyncio.run(calls())
    assert all(isinstance(stop, Stop) for stop in stops)
    assert isinstance(last, Refuse)
    assert last.status == 403


def test_a_stop_reply_is_a_finished_assistant_text_without_tokens_or_tool_calls() -> None:
    reply = chat_types.ChatCompletion.model_validate(Stop().completion(call_id="1", model="m", created=1.5))
    assert reply.choices[0].finish_reason == "stop"
    assert reply.choices[0].message.content
    assert reply.choices[0].message.tool_calls is None
    assert reply.usage.total_tokens == 0
    chunks = [chat_types.ChatCompletionChunk.model_validate(chunk) for chunk in Stop().chunks(call_id="1", model="m", created=1.5)]
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == reply.choices[0].message.content
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices] == [None, None, "stop"]


@pytest.mark.parametrize("limits", [{"calls": -1}, {"tokens": -1}])
def test_a_negative_budget_is_refused_in_a_sentence(limits) -> None:
    with pytest.raises(BudgetError, match="give 0 or more"):
        Budget(**limits)
