"""Evidence is published without the texts of third parties: nothing of them is left in any form, and it is judged as before."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.contract import judge
from pytest_harness.engines.scripted.tokenizer import ChatTokenizer
from pytest_harness.evidence import find_evidence, read_evidence
from pytest_harness.requirements import load_catalogue
from pytest_harness.resources import resource

ROOT = resource("fixtures", "evidence")
RECORDED = {path.relative_to(ROOT).parts[0]: read_evidence(path) for path in find_evidence(ROOT) if path.parts[-2] == "parallel_calls"}
TASK = resource("fixtures", "tasks", "parallel_calls", "instruction.md").read_text(encoding="utf-8")
PLACE = re.compile(r"\[[\w-]+'s text \d+, \d+ characters\]")
WORDS = ("never", "always", "the “user”", "runs\ta", "tool", "before\n\nit", "says", 'what "it"', "\\path", "knows", "<b>", "é", "{}", "&")
CATALOGUE = load_catalogue()


def load():
    spec = importlib.util.spec_from_file_location("stripping", ROOT / "stripping.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


stripping = load()


def canary(place):
    """A text like a vendor's, the same for the same placeholder."""
    chance = random.Random(place)
    return "CANARY " + " ".join(chance.choices(WORDS, k=30))


def planted(evidence):
    """The evidence as it would have been with instructions of a vendor's, in every form and place in which they are found."""
    texts = {place: canary(place) for call in evidence.calls for place in PLACE.findall(call.received.body)}

    def plant(text):
        def put(found):
            return json.dumps(texts[found[0]], ensure_ascii=False)[1:-1] if found[0] in texts else found[0]

        return PLACE.sub(put, text)

    calls = []
    for call in evidence.calls:
        bodies = {name: getattr(call, name) for name in ("received", "forwarded", "replied", "delivered")}
        bodies = {name: body.model_copy(update={"body": plant(body.body)}) for name, body in bodies.items()}
        calls.append(call.model_copy(update=bodies))
    files = {path: plant(text) for path, text in evidence.files.items()}
    secret = "\n".join(texts.values())
    ids = ChatTokenizer.bundled().encode(secret)
    for place, call in enumerate(calls):
        prompt = [*ids, *call.prompt_ids[len(ids) :]]
        raw = re.sub(r'"prompt_token_ids":\[[\d,]*\]', f'"prompt_token_ids":{json.dumps(prompt)}', call.replied.body)
        calls[place] = call.model_copy(update={"prompt_ids": tuple(prompt), "replied": call.replied.model_copy(update={"body": raw})})
    files |= {
        "native/log.jsonl": json.dumps({"system": secret}) + "\n",
        "trial/agent/harness.txt": secret,
        "trial/verifier/test-stdout.txt": json.dumps({"log": json.dumps({"prompt": secret})}),
        "trial/exception.txt": f"Traceback: {next(iter(texts.values()))}",
    }
    return dataclasses.replace(evidence, calls=tuple(calls), files=files), list(texts.values())


def everything(evidence):
    """All that is written of it, each text in every form in which it could be read."""
    texts = [evidence.manifest.model_dump_json(), *evidence.files.values(), *evidence.files]
    for call in evidence.calls:
        texts += [call.model_dump_json(), *(getattr(call, name).body for name in ("received", "forwarded", "replied", "delivered"))]
        texts.append(ChatTokenizer.bundled().decode(call.prompt_ids))
        for ids in re.findall(r'"prompt_token_ids":\s*(\[[\d,\s]*\])', call.replied.body):
            texts.append(ChatTokenizer.bundled().decode(json.loads(ids)))
    for text in texts:
        yield text
        once = text.replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
        yield once
        yield once.replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")


def runs(text):
    return {text[start : start + 40] for start in range(len(text) - 39)}


@pytest.mark.parametrize("harness", RECORDED)
def test_of_instructions_planted_everywhere_no_run_of_forty_characters_is_left(harness):
    evidence, texts = planted(RECORDED[harness])
    assert len(texts) > 3
    assert stripping.remains(evidence, stripping.Texts(evidence, TASK), ChatTokenizer.bundled().decode)
    clean = stripping.stripped(evidence, TASK)
    secret = set().union(*map(runs, texts))
    assert [text[:200] for text in everything(clean) if not secret.isdisjoint(runs(text))] == []
    assert stripping.remains(clean, stripping.Texts(evidence, TASK), ChatTokenizer.bundled().decode) == []


@pytest.mark.parametrize("harness", RECORDED)
def test_stripped_evidence_is_judged_as_the_original(harness):
    evidence, _ = planted(RECORDED[harness])
    both = [judge(each, CATALOGUE) for each in (evidence, stripping.stripped(evidence, TASK))]
    results = [{(one.requirement.id, one.result, len(one.findings)) for one in judgements} for judgements in both]
    assert results[0] == results[1]
    assert not {result for _, result, _ in results[0]} & {"failed", "error"}


@pytest.mark.parametrize("harness", RECORDED)
def test_what_is_published_holds_nothing_that_is_longer_than_ours(harness):
    """Of a system prompt and of a tool's description only the placeholder is left."""
    evidence = RECORDED[harness]
    texts = stripping.Texts(evidence, TASK)
    assert {text for text in texts.places if not PLACE.search(text) and len(text) >= stripping.RUN} == set()


def test_all_that_is_published_is_small():
    published = [path for path in ROOT.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in published) <= 2 * 1024 * 1024


PROMPTS = st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=8), st.lists(st.integers(100, 105), min_size=1, max_size=3)), max_size=6)


def shared(one, other):
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@given(PROMPTS)
def test_for_every_tree_of_prompts_lengths_forks_and_samples_stay(turns):
    tree = stripping.PromptTree("seed")
    before, after, history = [], [], []
    for added, sampled in turns:
        for prompt in ([*history, *added], added):
            told, position = tree.prompt(prompt)
            assert len(told) == len(prompt)
            tree.sample(position, sampled)
            before.append(prompt)
            after.append(told)
        history = [*history, *added, *sampled]
        again, _ = tree.prompt(history)
        assert again[len(history) - len(sampled) :] == sampled
    assert [shared(a, b) for a in before for b in before] == [shared(a, b) for a in after for b in after]
