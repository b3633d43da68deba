"""LGP: one logprob for each id, of the distribution that was sampled from, and a sample that can have come from it."""

import math
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_harness.endpoint.abilities import deterministic
from pytest_harness.endpoint.asking import PROMPT
from pytest_harness.endpoint.chances import DRAWS, IMPOSSIBLE, all_alike, likeliest, tail
from pytest_harness.session.case_marks import requirement
from pytest_harness.session.wire_marks import both_modes
from pytest_harness.wire.outcome import NotExercised, expect, same

NAMED = re.compile(r"token_id:(\d+)")
SENTINEL = -1000.0
"""Engines say -9999 and the like for what has no probability."""
TOLD = 5
PARALLEL = 8


@requirement("LGP-201")
@both_modes
@pytest.mark.parametrize("kind", ["text", "call"])
def test_there_is_one_logprob_for_each_id(case, kind, streamed):
    choice = case.ask(case.of(kind), streamed=streamed).only
    expect(choice.entries, "logprobs", choice.entries)
    same(len(choice.entries), len(case.ids(choice)), "logprobs, one for each id")


@requirement("LGP-202")
@both_modes
@pytest.mark.parametrize("kind", ["text", "call"])
def test_every_logprob_is_finite_and_not_above_zero(case, kind, streamed):
    choice = case.ask(case.of(kind), streamed=streamed).only
    case.entries(choice)
    wrong = [value for value in choice.logprobs if type(value) not in (int, float) or not math.isfinite(value) or not SENTINEL < value <= 0]
    same(wrong, [], "logprobs that are no finite numbers up to zero")


@requirement("LGP-203")
@both_modes
@pytest.mark.parametrize("kind", ["text", "call"])
def test_every_logprob_belongs_to_its_id(case, kind, streamed):
    choice = case.ask(case.of(kind), streamed=streamed).only
    told = [NAMED.fullmatch(str(entry.get("token"))) for entry in case.entries(choice)]
    if not all(told):
        raise NotExercised("the engine tells tokens by their text even where it is asked for token_id:N")
    same([int(each[1]) for each in told], case.ids(choice), "the ids that the logprobs name")


@requirement("LGP-204")
@both_modes
def test_logprobs_name_their_ids_where_nobody_asks_for_it(case, streamed):
    choice = case.ask(case.can.text(), streamed=streamed, return_tokens_as_token_ids=None).only
    told = [entry.get("token") for entry in case.entries(choice) if not NAMED.fullmatch(str(entry.get("token")))]
    same(told[:3], [], "tokens told by their text and not as token_id:N (vLLM: start it with --return-tokens-as-token-ids)")


@requirement("LGP-205")
def test_logprobs_are_those_of_the_temperature_that_is_sampled_with(case):
    if case.probe.logprobs == "unknown":
        raise NotExercised("the gaps between the likeliest tokens could not be measured at temperatures 1 and 2")
    expect(
        case.probe.logprobs == "processed",
        "gaps between the likeliest tokens that halve at temperature 2 (vLLM: start it with --logprobs-mode processed_logprobs)",
        f"{case.probe.logprobs} logprobs: the same gaps at both temperatures",
    )


@requirement("LGP-206")
def test_the_likeliest_tokens_are_told(case):
    reply = case.asking.post(max_tokens=1, top_logprobs=TOLD)
    expect(
        reply.status == 200,
        f"the {TOLD} likeliest tokens (vLLM: start it with --max-logprobs {TOLD} or more)",
        f"status {reply.status}: {reply.body.decode(errors='replace')}",
    )
    entry = first(case, case.ask(max_tokens=1, top_logprobs=TOLD).only)
    same(len(entry.get("top_logprobs") or ()), TOLD, "likeliest tokens told")


def first(case, choice):
    case.lacks("logprobs")
    expect(choice.entries and isinstance(choice.entries[0], dict), "a logprob of the first token", choice.entries)
    return choice.entries[0]


def likely(entry):
    best = likeliest(entry)
    if best is None:
        raise NotExercised("the engine does not tell the likeliest tokens")
    return best


@requirement("LGP-207")
@pytest.mark.parametrize("temperature", [0.0, 0.02, 1.0])
def test_the_temperature_is_that_of_the_sampling(case, temperature):
    case.samples()
    if case.asking.post(max_tokens=1, top_logprobs=TOLD).status != 200:
        raise NotExercised("the engine does not tell the likeliest tokens")
    if case.probe.logprobs != "processed" and temperature:
        raise NotExercised(f"the logprobs are {case.probe.logprobs}, so what is sampled cannot be held against them")
    draws = 4 if temperature == 0 else DRAWS
    told = [first(case, case.ask(max_tokens=1, top_logprobs=TOLD, temperature=temperature, seed=seed).only) for seed in range(draws)]
    best, chance = likely(told[0])
    hits = sum(entry.get("token") == best or (entry.get("logprob") or -1.0) >= math.log(chance) - 1e-3 for entry in told)
    if temperature == 0:
        same(hits, draws, "draws of the likeliest token at temperature 0")
        return
    found = f"{hits} of {draws} draws at temperature {temperature} gave the likeliest token, whose probability is told as {chance:.3g}"
    expect(tail(hits, draws, chance) > IMPOSSIBLE, "samples of the probabilities that are told", found)


def sampled(case, **fields):
    return case.ask(max_tokens=12, **fields)


@requirement("LGP-208")
def test_the_same_seed_gives_the_same_ids(case):
    case.samples()
    one, other = (sampled(case, seed=20261129) for _ in range(2))
    same(other.only.ids, one.only.ids, "the ids of the second request with the same seed")
    expect(deterministic(one, other), "the same reply", other.only.said)


@requirement("LGP-209")
def test_requests_without_a_seed_are_samples_of_their_own(case):
    case.samples()
    found = [sampled(case).only for _ in range(6)]
    told = case.ids(found[0])
    if any(each.ids != told for each in found):
        return
    chance = all_alike(math.fsum(value for value in found[0].logprobs if isinstance(value, int | float)), len(found))
    if chance > IMPOSSIBLE:
        raise NotExercised("the model is so sure of its answer that samples of their own look alike")
    expect(False, "samples of their own", f"{len(found)} times the ids {told}")


@requirement("LGP-210")
def test_parallel_requests_sample_as_they_do_alone(case):
    case.samples()

    def asked(number):
        return sampled(case, seed=number, messages=[{"role": "user", "content": f"{number}: {PROMPT}"}]).only.ids

    alone = [asked(number) for number in range(PARALLEL)]
    if alone != [asked(number) for number in range(PARALLEL)]:
        raise NotExercised("the same seed does not give the same ids, one request at a time")
    with ThreadPoolExecutor(PARALLEL) as pool:
        together = list(pool.map(asked, range(PARALLEL)))
    same(together, alone, "the ids of eight requests at once")
