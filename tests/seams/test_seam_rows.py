"""A row, rendered: placeholders, step limits, facts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_harness.seams import AgentTable, NpmInstall, Seam, SeamError, SeamTable, StepLimit
from pytest_harness.seams.placeholders import fill, merge, placeholders

URL, KEY, MODEL = "http://127.0.0.1:8555", "k" * 40, "tiny"


def seam(agent: dict, step_limit: dict | None = None) -> Seam:
    return Seam(
        name="mine",
        title="my agent",
        homepage="https://example.org",
        dialect="chat",
        streams=True,
        scenarios=("edit_file",),
        install=NpmInstall(kind="npm", package="mine", version="1", node="24.19.0", commands={"mine": "x"}),
        agent=AgentTable(**agent),
        step_limit=None if step_limit is None else StepLimit(**step_limit),
    )


def test_every_string_of_the_agent_is_filled_in_however_deep():
    agent = seam(
        {
            "harbor": "pi",
            "model": "openai/{model}",
            "base_url": "{url}/v1",
            "env": {"KEY": "{key}"},
            "kwargs": {"config": {"urls": ["{url}/a", 1, None, {"m": "{model}"}]}},
            "fields": {"model_api_key_name": "KEY"},
            "files": {"~/.config/mine.json": '{"url": "{url}", "key": "${KEY}"}'},
        }
    ).render(url=URL, key=KEY, model=MODEL)
    assert agent.model == "openai/tiny"
    assert agent.base_url == "http://127.0.0.1:8555/v1"
    assert agent.env == {"KEY": KEY}
    assert agent.kwargs == {"config": {"urls": ["http://127.0.0.1:8555/a", 1, None, {"m": "tiny"}]}}
    assert agent.files == {"~/.config/mine.json": '{"url": "http://127.0.0.1:8555", "key": "${KEY}"}'}


def test_a_base_url_that_the_row_leaves_out_is_not_given():
    assert seam({"harbor": "pi"}).render(url=URL, key=KEY, model=MODEL).base_url is None


def test_the_instruction_is_left_for_whoever_runs_the_command():
    agent = seam({"command": "mine --url {url} --task {instruction}"}).render(url=URL, key=KEY, model=MODEL)
    assert agent.command == f"mine --url {URL} --task {{instruction}}"
    assert agent.harbor is None


def test_a_step_limit_is_a_number_in_arguments_a_string_in_the_environment_and_absent_unless_asked_for():
    row = seam(
        {"harbor": "pi", "kwargs": {"config": {"model": {"a": 1}}}},
        {"env": {"MAX": "{steps}"}, "kwargs": {"config": {"agent": {"limit": "{steps}", "text": "at most {steps}"}}}},
    )
    limited = row.render(url=URL, key=KEY, model=MODEL, steps=7)
    assert limited.kwargs == {"config": {"model": {"a": 1}, "agent": {"limit": 7, "text": "at most 7"}}}
    assert limited.env == {"MAX": "7"}
    free = row.render(url=URL, key=KEY, model=MODEL)
    assert (free.kwargs, free.env) == ({"config": {"model": {"a": 1}}}, {})


def test_asking_for_a_step_limit_that_the_harness_has_not_is_refused():
    with pytest.raises(SeamError, match=r"mine has no step limit of its own"):
        seam({"harbor": "pi"}).render(url=URL, key=KEY, model=MODEL, steps=3)


def test_the_bundled_rows_give_harbor_what_its_adapters_take():
    table = SeamTable.load()
    pi = table["pi"].render(url=URL, key=KEY, model=MODEL, steps=5)
    assert (pi.harbor, pi.model, pi.base_url) == ("pi", "openai/tiny", f"{URL}/v1")
    assert pi.kwargs == {"skip_install": True, "model_api": "openai-completions", "max_turns": 5}
    mini = table["mini-swe-agent"].render(url=URL, key=KEY, model=MODEL, steps=5)
    assert mini.kwargs == {"skip_install": True, "config": {"agent": {"step_limit": 5}}}
    assert mini.env["OPENAI_API_KEY"] == KEY


def test_a_row_cannot_be_changed():
    with pytest.raises(ValidationError):
        SeamTable.load()["pi"].name = "other"  # type: ignore[misc]


def test_the_facts_are_those_of_the_row_and_the_digest_is_stable():
    first, second = SeamTable.load()["pi"].facts, SeamTable.load()["pi"].facts
    assert first == second
    assert (first.harness, first.dialect, first.streams, first.trajectory) == ("pi", "chat", True, "atif")
    assert len(first.digest) == 64


@pytest.mark.parametrize(
    ("name", "acts"),
    [("pi", "calls"), ("mini-swe-agent", "calls"), ("mini-swe-agent-text", "commands"), ("terminus-2", "commands"), ("aider", "files")],
)
def test_the_facts_say_how_the_harness_comes_to_act(name, acts):
    assert SeamTable.load()[name].facts.acts_by == acts


values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(), st.sampled_from(["{url}", "a {key} b", "{model}{model}", "${key}", "{other}"])
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_for_every_value_no_known_placeholder_survives_and_one_pass_is_enough(value):
    given_values = {"url": "{key}", "key": "K", "model": "M"}
    filled = fill(value, given_values)
    before = [name for _, name in placeholders("", value)]
    after = [name for _, name in placeholders("", filled)]
    # What an URL brings in is text, not a placeholder to be filled in again.
    assert sorted(after) == sorted(["key" if name == "url" else name for name in before if name not in {"key", "model"}])


@given(st.dictionaries(st.text(max_size=2), values, max_size=3), st.dictionaries(st.text(max_size=2), values, max_size=3))
def test_for_every_pair_of_tables_merging_keeps_both_and_the_second_wins(base, over):
    merged = merge(base, over)
    assert set(merged) == set(base) | set(over)
    for key, value in over.items():
        if not isinstance(value, dict):
            assert merged[key] == value
    for key in set(base) - set(over):
        assert merged[key] == base[key]
