"""The fixtures for other repositories, as a host uses them that asks for them; and a host that only loads them pays little."""

from __future__ import annotations

TESTS = """
import json, sys, urllib.request
import pytest
from pytest_harness.fixtures import broken

HEAVY = {"harbor", "litellm", "aiohttp", "uvicorn", "tokenizers", "jsonschema"}

def test_loading_them_imports_nothing_heavy():
    assert HEAVY & set(sys.modules) == set()

def ask(session, *messages):
    request = urllib.request.Request(
        session.base_urls["openai"] + "/chat/completions",
        data=json.dumps({"model": "any", "messages": messages}).encode(),
        headers={"content-type": "application/json", "authorization": f"Bearer {session.key}"},
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]

QUESTION = {"role": "user", "content": "Hello."}

def test_what_was_captured_is_judged(scripted_engine, capture_proxy, evidence):
    session = capture_proxy(scripted_engine(("One.", []), ("Two.", [])))
    first = ask(session, QUESTION)
    second = ask(session, QUESTION, first, {"role": "user", "content": "Go on."})
    assert (first["content"], second["content"]) == ("One.", "Two.")
    assert session.key not in repr(session)
    kept = evidence(session, name="asker")
    assert [len(call.samples) for call in kept.calls] == [1, 1]
    assert kept.manifest.harness == "asker"
    assert broken(kept) == ()

def test_sessions_do_not_see_each_other(scripted_engine, capture_proxy):
    one, other = (capture_proxy(scripted_engine((text, []))) for text in ("One.", "Other."))
    assert ask(one, QUESTION)["content"] == "One."
    assert other.calls() == ()
    assert ask(other, QUESTION)["content"] == "Other."
    assert len(one.calls()) == len(other.calls()) == 1

async def test_in_a_coroutine_they_are_the_same(scripted_engine, capture_proxy, evidence):
    import asyncio
    session = capture_proxy(scripted_engine(("One.", [])))
    await asyncio.to_thread(ask, session, QUESTION)
    assert broken(evidence(session)) == ()

def test_stored_evidence_is_read_and_judged(evidence):
    from pytest_harness.resources import resource
    stored = evidence(resource("fixtures", "evidence", "pi", "local", "scripted", "explore", "1"))
    assert stored.trial_result is not None
    assert broken(stored) == ()

def test_what_cannot_be_rolled_out_fails_in_a_sentence(rollout):
    with pytest.raises(pytest.fail.Exception, match="there is no harness 'nobody'"):
        rollout("nobody")
    with pytest.raises(pytest.fail.Exception, match="there is no scenario 'nothing'"):
        rollout("pi", "nothing")
"""


def test_a_host_that_asks_for_them_has_them(tmp_path, run_pytest):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["pytest_harness.fixtures"]\n')
    (tmp_path / "test_host.py").write_text(TESTS)
    alone = ("-p", "no:anyio", "-p", "no:hypothesispytest", "-p", "no:randomly")
    options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "-W", "error", *alone)
    done = run_pytest(tmp_path, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_a_host_that_does_not_ask_has_none_of_them(tmp_path, run_pytest):
    (tmp_path / "test_host.py").write_text("def test_it(capture_proxy): pass\n")
    done = run_pytest(tmp_path)
    assert "fixture 'capture_proxy' not found" in done.stdout
