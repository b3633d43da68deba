"""``pytest --llm-url``: what it says of an engine, and the one sentence for what cannot be judged."""

from __future__ import annotations

import json

import pytest

from pytest_harness.engines.scripted import Fault, ScriptedEngine
from pytest_harness.engines.scripted.__main__ import STEPS
from pytest_harness.engines.scripted.script import Script
from pytest_harness.serving import BackgroundServer

KEY = "engine-key-canary-0123456789"
SMALL = "-k=test_a_reply_has_the_ids or test_tools_are_taken"


def page(status, body, kind=b"text/html"):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": body})

    return app


def judged(run_pytest, folder, app, *arguments, env=None):
    with BackgroundServer(app) as server:
        return run_pytest(folder, f"--llm-url={server.listen().url}", *arguments, env=env)


def report(folder):
    return json.loads((folder / ".harness" / "report" / "engine.json").read_text())


def test_our_engine_with_a_script_is_judged_from_end_to_end(tmp_path, run_pytest):
    done = judged(run_pytest, tmp_path, ScriptedEngine(Script.for_seam(STEPS, shell_tool="bash"), max_model_len=2048))
    assert done.returncode == 0, done.stdout
    found = report(tmp_path)
    assert (found["level"], found["logprobs"], found["ok"]) == ("tokens", "processed", True)
    assert "says what a script makes it say" in found["may_train"]
    unexercised = {entry["id"]: entry["reasons"][0] for entry in found["requirements"] if entry["standing"] == "not_exercised"}
    assert {name for name, reason in unexercised.items() if "follows a script" in reason} == {
        "LGP-207", "LGP-208", "LGP-209", "LGP-210", "PAR-208", "USE-204"
    }  # fmt: skip
    assert "level tokens, logprobs processed; not for training: the engine at" in done.stdout


def test_an_engine_without_ids_fails_and_is_told_with_its_level(tmp_path, run_pytest):
    done = judged(run_pytest, tmp_path, ScriptedEngine(None, faults=[Fault("null_ids")]), SMALL)
    assert done.returncode == 1
    assert "TOK-201 An engine returns its ids (MUST)" in done.stdout
    found = report(tmp_path)
    assert (found["level"], found["missing"]) == ("logprobs", ["prompt_token_ids", "token_ids"])
    assert found["may_train"] in done.stdout


def test_a_missing_flag_of_vllm_is_named(tmp_path, run_pytest):
    done = judged(run_pytest, tmp_path, ScriptedEngine(None, auto_tools=False), SMALL)
    assert done.returncode == 1
    assert "--enable-auto-tool-choice and --tool-call-parser" in done.stdout
    assert "not for training: it breaks PAR-201" in done.stdout


def test_an_engine_that_refuses_to_be_asked_for_ids_is_judged_as_text(tmp_path, run_pytest):
    done = judged(run_pytest, tmp_path, Strict(), SMALL)
    assert done.returncode == 1
    assert report(tmp_path)["level"] == "text"
    assert "Unrecognized request argument: return_token_ids" in done.stdout


class Strict:
    """Refuses what it does not know, as OpenAI does."""

    def __init__(self):
        self.engine = ScriptedEngine(None)

    async def __call__(self, scope, receive, send):
        if scope["path"] != "/v1/chat/completions":
            return await self.engine(scope, receive, send)
        event = await receive()
        if b"return_token_ids" in event["body"]:
            body = b'{"error": {"message": "Unrecognized request argument: return_token_ids"}}'
            return await page(400, body, b"application/json")(scope, receive, send)

        async def again():
            return event

        return await self.engine(scope, again, send)


def test_the_key_is_read_from_its_variable_and_is_in_no_report(tmp_path, run_pytest):
    done = judged(
        run_pytest,
        tmp_path,
        ScriptedEngine(None, api_key=KEY, faults=[Fault("null_ids")]),
        SMALL,
        "--llm-key-env=OWN_KEY",
        env={"OWN_KEY": KEY},
    )
    assert done.returncode == 1
    assert KEY not in done.stdout + done.stderr + (tmp_path / ".harness" / "report" / "engine.json").read_text()


def refused(done):
    assert done.returncode == 4, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://127.0.0.1:9", "cannot be reached"),
        ("engine:8000", "write it like"),
        ("ftp://127.0.0.1/v1", "write it like"),
        ("http://[::1", "is not a URL (Invalid IPv6 URL); write it like"),
        ("http://user:hidden-word@127.0.0.1:9", "--llm-url http://***@127.0.0.1:9: the engine's URL carries credentials"),
    ],
)
def test_a_url_that_leads_to_no_engine_is_one_sentence(tmp_path, run_pytest, url, sentence):
    done = run_pytest(tmp_path, f"--llm-url={url}")
    assert sentence in refused(done)
    assert "hidden-word" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("app", "arguments", "sentence"),
    [
        (page(200, b"<html><h1>Welcome</h1></html>"), (), "is no engine: its list of models is no JSON object; correct --llm-url"),
        (page(404, b"<html><h1>Nothing here</h1></html>"), (), "does not list its models (status 404); name one with --model, or correct"),
        (page(200, b"<html>"), ("--model=any",), "no chat completion; check --llm-url"),
        (ScriptedEngine(None, api_key=KEY), (), "refuses the key (status 401); name its variable with --llm-key-env"),
        (ScriptedEngine(None), ("--model=other",), "does not serve other; it serves scripted"),
        (ScriptedEngine(None), ("--llm-key-env=NOT_SET_AT_ALL",), "--llm-key-env names NOT_SET_AT_ALL, and that variable is not set"),
        (ScriptedEngine(None), ("--harness=pi",), "--llm-url judges an engine by itself"),
        (ScriptedEngine(None), ("--proxy=bundled",), "--proxy and --llm-url name a subject each; run pytest once for each"),
    ],
    ids=["html", "not found", "html for a model", "no key", "other model", "no variable", "with a harness", "with a proxy"],
)
def test_what_cannot_be_judged_is_one_sentence(tmp_path, run_pytest, app, arguments, sentence):
    assert sentence in refused(judged(run_pytest, tmp_path, app, *arguments))
