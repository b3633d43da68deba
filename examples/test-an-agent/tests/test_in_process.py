"""The agent's own function, on an engine that says what each test wants; nothing leaves this process but to loopback."""

import urllib.error

import pytest
from sum_agent import Agent

from pytest_harness.engines.scripted import Fault
from pytest_harness.fixtures import broken

STEPS = ("I add them up.", ["echo $((20 + 22))", "echo two"]), ("It is 42.", [])


@pytest.fixture
def open_session(scripted_engine, capture_proxy):
    """A session before an engine with these steps, and an agent that talks to it."""

    def opened(*, agent=Agent, faults=(), calls=None):
        session = capture_proxy(scripted_engine(*STEPS, tool="bash", faults=faults), calls=calls)
        return session, agent(session.base_urls["openai"], session.key, session.model)

    return opened


def test_its_tokens_may_be_trained_on(open_session, evidence):
    session, agent = open_session()
    assert agent.work("What is 20 + 22?") == "It is 42."
    assert not broken(evidence(session))


def test_every_token_that_was_sampled_is_captured_with_its_logprob(open_session):
    session, agent = open_session()
    agent.work("What is 20 + 22?")
    first, second = session.calls()
    assert len(first.samples[0].token_ids) == len(first.samples[0].logprobs) > 0
    assert second.prompt_ids[: len(first.prompt_ids)] == first.prompt_ids


def test_it_waits_and_tries_again_when_it_is_told_to(open_session, evidence):
    busy = Fault("status", calls=[0], status=429, message="Too many requests.", headers={"retry-after": "0"})
    session, agent = open_session(faults=[busy])
    assert agent.work("What is 20 + 22?") == "It is 42."
    assert [call.outcome for call in session.calls()] == ["upstream_error", "complete", "complete"]
    assert not broken(evidence(session))


def test_it_does_not_ask_again_for_what_cannot_be_right(open_session):
    session, agent = open_session(faults=[Fault("status", status=400, message="No such parameter.")])
    with pytest.raises(urllib.error.HTTPError):
        agent.work("What is 20 + 22?")
    assert len(session.calls()) == 1


def test_it_ends_when_its_budget_is_used_up(open_session):
    session, agent = open_session(calls=1)
    agent.work("What is 20 + 22?")
    assert [call.outcome for call in session.calls()] == ["complete", "budget_stop"]


class Careless(Agent):
    """Answers the second call only."""

    def answer(self, calls):
        return super().answer(calls)[1:]


def test_a_lost_result_would_be_found(open_session, evidence):
    session, agent = open_session(agent=Careless)
    agent.work("What is 20 + 22?")
    assert "PAR-002" in {finding.requirement for finding in broken(evidence(session))}


def test_a_test_in_which_nothing_was_asked_cannot_pass(open_session, evidence):
    session, _ = open_session()
    with pytest.raises(AssertionError, match="no call reached the proxy"):
        broken(evidence(session))
