"""The harnesses that no row runs: none that Harbor registers is missing, and each says why when it is asked for."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
from harbor.models.agent.name import AgentName

from pytest_harness.resources import resource
from pytest_harness.seams import SeamError, SeamTable, read_unavailable, unavailable_schema

ENTRY = """\
[other_names]
theirs = "mine"

[[harness]]
name = "absent"
title = "an agent"
kind = "account"
reason = "its vendor wants an account"
seen = 2026-11-29
"""


def table(folder: Path, text: str = ENTRY) -> Path:
    path = folder / "unavailable.toml"
    path.write_text(text)
    return path


def test_every_harness_that_harbor_registers_has_a_row_or_a_reason_why_not():
    seams = SeamTable.load()
    known = {*seams.names, *seams.other_names, *(seams[name].agent.harbor for name in seams), *(each.name for each in seams.unavailable)}
    assert {name.value for name in AgentName} - known == set()


def test_no_reason_is_left_for_a_harness_that_has_a_row_by_now():
    table = read_unavailable(resource("seams", "unavailable.toml"))
    rows = set(SeamTable.load().names)
    assert {each.name for each in table.harness} & rows == set()
    assert set(table.other_names.values()) <= rows


def test_the_bundled_table_fits_the_published_schema():
    schema = json.loads(resource("seams", "unavailable.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    document = tomllib.loads(resource("seams", "unavailable.toml").read_text())
    jsonschema.validate(json.loads(json.dumps(document, default=str)), schema)


def test_the_committed_schema_of_the_table_is_the_one_the_models_give():
    committed = json.loads(resource("seams", "unavailable.schema.json").read_text())
    assert committed == unavailable_schema(), (
        "seams/unavailable.schema.json is stale; write json.dumps(pytest_harness.seams.unavailable_schema(), indent=2) into it"
    )


def test_every_bundled_reason_is_one_sentence_on_one_line_without_its_full_stop():
    for each in SeamTable.load().unavailable:
        assert each.reason == each.reason.strip(), each.name
        assert "\n" not in each.reason, each.name
        assert not each.reason.endswith("."), each.name


@pytest.mark.parametrize("kind", ["account", "no-channel", "installer", "package"])
def test_a_harness_that_cannot_be_run_is_blocked(tmp_path, kind):
    (each,) = read_unavailable(table(tmp_path, ENTRY.replace("account", kind, 1))).harness
    assert each.status == "blocked: its vendor wants an account"


def test_a_harness_that_nobody_tried_is_untested(tmp_path):
    (each,) = read_unavailable(table(tmp_path, ENTRY.replace('"account"', '"untried"'))).harness
    assert each.status == "untested: its vendor wants an account"


def test_the_status_cannot_be_typed(tmp_path):
    with pytest.raises(SeamError, match=r"unavailable.toml: harness.0.status: unknown key found"):
        read_unavailable(table(tmp_path, ENTRY + 'status = "validated"\n'))


def test_whoever_asks_for_one_by_name_is_told_why(tmp_path):
    table(tmp_path)
    with pytest.raises(SeamError) as caught:
        SeamTable.load(tmp_path).get("absent@1.0")
    assert str(caught.value) == "absent cannot be run: blocked: its vendor wants an account (seen 2026-11-29)"


def test_whoever_asks_by_harbors_name_is_told_ours(tmp_path):
    table(tmp_path, '[other_names]\ntheirs = "pi"\n')
    with pytest.raises(SeamError, match=r"^there is no harness 'theirs'; what Harbor calls so is pi here$"):
        SeamTable.load(tmp_path).get("theirs")


def test_a_row_wins_over_the_reason_that_there_is_none(tmp_path):
    own = resource("seams", "pi.toml").read_text().replace('name = "pi"', 'name = "goose"')
    (tmp_path / "goose.toml").write_text(own)
    seams = SeamTable.load(tmp_path)
    assert seams["goose"].install.kind == "npm"
    assert "goose" not in {each.name for each in seams.unavailable}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"account"', '"lazy"', 'harness.0.kind: "lazy" found, "account", "no-channel", "installer", "package" or "untried" expected'),
        ("2026-11-29", '"yesterday"', 'harness.0.seen: "yesterday" found, a string that matches'),
        ('reason = "its vendor wants an account"\n', "", "harness.0.reason: nothing found, a value such as"),
        ("theirs =", "absent =", "absent found more than once, one entry each expected"),
        ("[[harness]]", "[[harness", "is not TOML"),
    ],
)
def test_what_is_wrong_with_the_table_is_one_sentence(tmp_path, old, new, sentence):
    table(tmp_path, ENTRY.replace(old, new))
    with pytest.raises(SeamError) as caught:
        SeamTable.load(tmp_path)
    assert sentence in str(caught.value)
    assert "unavailable.toml" in str(caught.value)
    assert "\n" not in str(caught.value)
