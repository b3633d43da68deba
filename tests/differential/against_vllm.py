"""The scripted engine answers as a real vLLM does: the same requests to both, and all that can be compared is equal.

`make differential` runs this. The name keeps it out of a plain run of the tests: it needs a vLLM, which it starts, and installs if there
is none. What differs and stays so is in ``known.toml``; what is listed there and does not occur fails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from .comparison import Decode, differences, facts
from .corpus import CASES, TALKS, Case
from .engines import Engines
from .known import read_known, stale, unknown
from .odd import conversations, forced_texts, odd_bodies

KNOWN = read_known(Path(__file__).with_name("known.toml"))
AT_ONCE = 8
Found = dict[str, dict[str, tuple[Any, Any]]]

by_chance = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

token_by_token = settings(by_chance, max_examples=75)
"""For answers that vLLM samples one id after the other, on its own: they were a third of the whole run."""


@pytest.fixture(scope="module")
def found(engines: Engines, decode: Decode, request: pytest.FixtureRequest) -> Found:
    """The differences of each case of the corpus, as far as this run has it."""
    asked = {
        item.callspec.params["name"] for item in request.session.items if "name" in getattr(getattr(item, "callspec", None), "params", {})
    }
    cases = [case for case in CASES.values() if not asked or case.name in asked]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        theirs = list(pool.map(engines.theirs, cases))
    return {
        case.name: differences(facts(engines.ours(case), decode), facts(answer, decode)) for case, answer in zip(cases, theirs, strict=True)
    }


@pytest.mark.parametrize("name", CASES)
def test_both_answer_alike(name: str, found: Found) -> None:
    assert {aspect: found[name][aspect] for aspect in unknown(name, found[name], KNOWN)} == {}, told(CASES[name].fields)


def test_every_known_difference_is_still_there(found: Found, engines: Engines) -> None:
    if set(found) != set(CASES):
        pytest.skip("only a run of the whole corpus can tell what no longer occurs")
    assert stale(KNOWN, found, engines.version) == []


@by_chance
@given(fields=conversations())
def test_any_conversation_has_the_same_prompt(fields: Mapping[str, Any], engines: Engines, decode: Decode) -> None:
    assert compared(fields, engines, decode) == {}, told(fields)


@by_chance
@given(fields=odd_bodies())
def test_any_odd_field_is_answered_alike(fields: Mapping[str, Any], engines: Engines, decode: Decode) -> None:
    assert compared(fields, engines, decode) == {}, told(fields)


@token_by_token
@given(fields=forced_texts())
def test_any_text_is_told_alike(fields: Mapping[str, Any], engines: Engines, decode: Decode) -> None:
    assert compared(fields, engines, decode) == {}, told(fields)


def compared(fields: Mapping[str, Any], engines: Engines, decode: Decode) -> dict[str, tuple[Any, Any]]:
    """The differences in the answers to a request that was made by chance."""
    case = Case("by chance", fields, None if "structured_outputs" in fields else TALKS)
    return differences(facts(engines.ours(case), decode), facts(engines.theirs(case), decode))


def told(fields: Mapping[str, Any]) -> str:
    """The request, for the reader of a failure. The first answer of each pair is the scripted engine's."""
    return json.dumps(fields, default=repr, indent=1)
