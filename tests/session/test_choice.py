"""What a run chooses: every pair of what a group reached, the product of what was named, and a word about the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.seams import Seam
from pytest_harness.session import choice
from pytest_harness.session.choice import FAST_SCENARIO, FAULTY, PAIRWISE, Cell, Wanted, choose, pairs, pairwise, wanted

NAMES = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6, unique=True)
TABLES = st.dictionaries(st.sampled_from(["pi", "codex", "goose", "vibe", "cline"]), NAMES, min_size=1)
SANDBOXES = st.lists(st.sampled_from(["local", "docker", "podman", "far"]), min_size=1, unique=True)


def product(scenarios, sandboxes):
    return [Cell(harness, sandbox, scenario) for harness, own in scenarios.items() for sandbox in sandboxes for scenario in own]


def missing(scenarios, sandboxes, chosen):
    """The pairs that occur in the product and in no chosen rollout."""
    met = frozenset().union(*map(pairs, chosen))
    return {pair for cell in product(scenarios, sandboxes) for pair in pairs(cell)} - met


def row(name="pi", scenarios=("explore", FAST_SCENARIO, "cut_call"), **more):
    """A row of which only the choice is of interest."""
    return Seam.model_construct(
        name=name,
        scenarios=scenarios,
        inapplicable=more.get("inapplicable", {}),
        variant_of=more.get("variant_of"),
        slow=more.get("slow", False),
    )


@given(TABLES, SANDBOXES)
def test_every_pair_runs_at_least_once(scenarios, sandboxes):
    chosen = pairwise(scenarios, sandboxes)
    assert missing(scenarios, sandboxes, chosen) == set()
    assert set(chosen) <= set(product(scenarios, sandboxes))
    assert len(set(chosen)) == len(chosen)


@given(TABLES, SANDBOXES)
def test_a_choice_without_any_one_sandbox_of_a_harness_is_noticed(scenarios, sandboxes):
    first = next(iter(scenarios))
    kept = [cell for cell in pairwise(scenarios, sandboxes) if (cell.harness, cell.sandbox) != (first, sandboxes[-1])]
    assert missing(scenarios, sandboxes, kept)


@given(TABLES)
def test_in_one_sandbox_everything_runs(scenarios):
    assert sorted(pairwise(scenarios, ["local"])) == sorted(product(scenarios, ["local"]))


def test_the_choice_is_far_smaller_than_the_product():
    scenarios = {f"harness-{number}": [f"scenario-{letter}" for letter in "abcdefghij"] for number in range(10)}
    sandboxes = ["local", "docker", "podman"]
    assert len(pairwise(scenarios, sandboxes)) == 100 == len(product(scenarios, sandboxes)) / 3


@given(TABLES, SANDBOXES, st.data())
def test_a_named_harness_gets_the_product_and_whatever_else_is_left_out_is_said(scenarios, sandboxes, data):
    named = data.draw(st.sets(st.sampled_from(sorted(scenarios))))
    rows = [Wanted(row(name), tuple(own), named=name in named) for name, own in scenarios.items()]
    chosen = choose(rows, sandboxes, full_matrix=False)
    everything = product(scenarios, sandboxes)
    assert {cell for cell in everything if cell.harness in named} <= set(chosen.cells)
    assert sorted([*chosen.cells, *(each.cell for each in chosen.left_out)]) == sorted(everything)
    assert {each.why for each in chosen.left_out} <= {PAIRWISE}
    assert choose(rows, sandboxes, full_matrix=True) == choice.Choice(tuple(everything), ())


def test_the_fast_tier_runs_one_scenario_unless_others_are_named():
    assert wanted(row(), frozenset({"fast"}), []).scenarios == (FAST_SCENARIO,)
    assert wanted(row(scenarios=("explore", "cut_call")), frozenset({"fast"}), []).scenarios == ("explore",)
    assert wanted(row(), frozenset({"fast"}), ["cut_call"]).scenarios == ("cut_call",)
    assert wanted(row(), frozenset({"fast", "all"}), []).scenarios == row().scenarios
    assert wanted(row(), frozenset(), []) == Wanted(row(), row().scenarios, named=True)


@pytest.mark.parametrize("groups", [frozenset({"all"}), frozenset({"fast"})])
def test_what_does_not_apply_is_left_out_with_the_rows_reason_unless_the_harness_is_named(groups):
    excused = row(inapplicable={"cut_call": "it takes half an answer for a whole one"})
    reached = choose([wanted(excused, groups, ["cut_call", "explore"])], ["local"], full_matrix=False)
    assert reached.cells == (Cell("pi", "local", "explore"),)
    assert [tuple(each) for each in reached.left_out] == [
        (Cell("pi", "local", "cut_call"), "it does not apply: it takes half an answer for a whole one")
    ]
    named = choose([wanted(excused, frozenset(), ["cut_call"])], ["local"], full_matrix=False)
    assert named.cells == (Cell("pi", "local", "cut_call"),)


def test_of_a_variant_only_what_shows_its_wire_runs_unless_it_or_the_scenario_is_named():
    variant = row("pi-gemini", variant_of="pi")
    everything = frozenset({"all"})
    rows = [wanted(row(), everything, []), wanted(variant, everything, [])]
    chosen = choose(rows, ["local"], full_matrix=False)
    assert [cell.scenario for cell in chosen.cells if cell.harness == "pi"] == ["explore", FAST_SCENARIO, "cut_call"]
    assert [cell.scenario for cell in chosen.cells if cell.harness == "pi-gemini"] == ["explore", FAST_SCENARIO]
    assert [tuple(each) for each in chosen.left_out] == [
        (Cell("pi-gemini", "local", "cut_call"), "pi runs it; --full-matrix runs it on this wire too")
    ]
    assert len(choose(rows, ["local"], full_matrix=True).cells) == 6
    assert wanted(variant, everything, ["cut_call"]).spared == {}
    assert wanted(variant, frozenset(), []).spared == {}


def test_of_a_slow_row_only_what_shows_its_wire_runs_unless_it_or_the_scenario_is_named():
    slow = row("claw", slow=True)
    everything = frozenset({"all"})
    chosen = choose([wanted(slow, everything, [])], ["local"], full_matrix=False)
    assert [cell.scenario for cell in chosen.cells] == ["explore", FAST_SCENARIO]
    assert [tuple(each) for each in chosen.left_out] == [
        (Cell("claw", "local", "cut_call"), "its rollouts take long; --harness=claw or --full-matrix runs it")
    ]
    assert len(choose([wanted(slow, everything, [])], ["local"], full_matrix=True).cells) == 3
    assert wanted(slow, everything, ["cut_call"]).spared == {}
    assert wanted(slow, frozenset(), []).spared == {}


@pytest.mark.parametrize("groups", [frozenset(), frozenset({"all"})])
def test_a_fault_that_we_play_is_left_to_the_scripted_engine_unless_its_scenario_is_named(groups):
    told = wanted(row(), groups, [], faulty=["cut_call", "rate_limited"])
    chosen = choose([told], ["local"], full_matrix=False)
    assert [cell.scenario for cell in chosen.cells] == ["explore", FAST_SCENARIO]
    assert [tuple(each) for each in chosen.left_out] == [(Cell("pi", "local", "cut_call"), FAULTY)]
    assert len(choose([told], ["local"], full_matrix=True).cells) == 3
    assert wanted(row(), groups, ["cut_call"], faulty=["cut_call"]).spared == {}


@pytest.mark.parametrize("more", [{"variant_of": "codex"}, {"slow": True}])
def test_of_a_variant_or_a_slow_row_a_fault_is_left_out_for_what_its_own_row_is_left_out_for_too(more):
    rows = [wanted(row(**more), frozenset({"all"}), [], faulty=["cut_call"])]
    assert [each.why for each in choose(rows, ["local"], full_matrix=False).left_out] == [FAULTY]


@pytest.mark.parametrize("groups", [frozenset(), frozenset({"all"})])
def test_what_a_row_leaves_out_by_itself_is_told_of_a_named_harness_too(groups):
    told = row(scenarios=("explore",), inapplicable={"cut_call": "it keeps half a call"})
    chosen = choose([wanted(told, groups, [])], ["local"], full_matrix=False)
    assert [tuple(each) for each in chosen.left_out] == [(Cell("pi", "local", "cut_call"), "its row leaves it out: it keeps half a call")]
    assert choose([wanted(told, groups, ["explore", "edit_file"])], ["local"], full_matrix=False).left_out == ()
