"""Calls that are out of order, missing, there twice or numbered anyhow: every check has an answer, as for any evidence."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harness.contract import grade, judge, validity
from pytest_harness.requirements import load_catalogue

CATALOGUE = load_catalogue()


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_however_calls_are_ordered_and_numbered_every_check_has_an_answer(healthy, data):
    evidence = data.draw(st.sampled_from([healthy.pi(), healthy.mini(), healthy.in_company(), healthy.eventful(healthy.pi())]))
    count = len(evidence.calls)
    order = data.draw(st.permutations(range(count)) | st.lists(st.integers(0, count - 1), max_size=count + 2))
    anyhow = data.draw(st.booleans())
    numbers = [data.draw(st.integers(-2, count + 1)) if anyhow else position for position in order]
    calls = [evidence.calls[position].model_copy(update={"index": number}) for position, number in zip(order, numbers, strict=True)]
    odd = replace(evidence, calls=tuple(calls))
    assert [(one.requirement.id, one.reason) for one in judge(odd, CATALOGUE) if one.result == "error"] == []
    assert validity(odd).valid or validity(odd).reason
    assert grade(odd).state
