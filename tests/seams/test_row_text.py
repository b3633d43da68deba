"""A row that is written says what it was told, whatever that is."""

import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import NpmInstall, SeamError, SeamTable, Shell
from pytest_harness.seams.template import Draft, blank_draft, checked_name, row_text

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=30)
VALUES = st.recursive(
    st.booleans() | st.integers(-1000, 1000) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
INSTALL = NpmInstall(kind="npm", package="@me/mine", version="1.2.3", node="24.19.0", commands={"mine": "cli.js"})


def draft(**over: object) -> Draft:
    told = {"name": "mine", "title": "Mine", "homepage": "https://example.org", "install": INSTALL, "command": "mine {instruction}"}
    return Draft(**{**told, **over})


@example("a\nb", {"A\nB": "c\nd'"}, {"~/a\nb": "\n"}, {"\n": {"a\nb": ["\n", "'''\n"]}})
@given(TEXT, st.dictionaries(TEXT, TEXT, max_size=3), st.dictionaries(TEXT, TEXT, max_size=2), st.dictionaries(TEXT, VALUES, max_size=3))
def test_every_text_comes_back_as_it_was(title, env, files, extra):
    document = tomllib.loads(row_text(draft(title=title, env=env, files=files, shell=Shell(tool=title, argument="command", extra=extra))))
    assert document["title"] == title
    assert document["agent"].get("env", {}) == env
    assert document["agent"].get("files", {}) == files
    assert document["shell"].get("extra", {}) == extra


@given(st.lists(TEXT, max_size=3))
def test_no_comment_becomes_a_part_of_the_row(notes):
    with_notes = row_text(draft(notes={"": tuple(notes), "agent": tuple(notes), "native": tuple(notes)}))
    assert tomllib.loads(with_notes) == tomllib.loads(row_text(draft()))


def test_a_whole_row_loads(tmp_path):
    whole = draft(dialect="messages", streams=True, shell=Shell(tool="sh"), finish="echo DONE", native="~/.mine/log", trajectory="atif")
    (tmp_path / "mine.toml").write_text(row_text(whole))
    seam = SeamTable.load(tmp_path)["mine"]
    assert (seam.dialect, seam.streams, seam.trajectory, seam.install) == ("messages", True, "atif", INSTALL)
    assert (seam.shell.tool, seam.finish.command, seam.native.log) == ("sh", "echo DONE", "~/.mine/log")
    scenarios = ScenarioTable.load()
    assert seam.scenarios == tuple(name for name in scenarios if scenarios[name].needs in (None, "tools"))


def test_what_is_not_known_is_a_comment_that_shows_what_it_would_look_like():
    text = row_text(draft())
    assert '# [finish]\n# command = "echo DONE"' in text
    assert '# [native]\n# log = "~/.mine/sessions"' in text
    assert "# [shell]" in text


def test_a_blank_row_loads(tmp_path):
    (tmp_path / "mine.toml").write_text(row_text(blank_draft("mine")))
    assert SeamTable.load(tmp_path)["mine"].install.path == "../mine"


@pytest.mark.parametrize("name", ["Mine", "my agent", "-mine", "mine-", "my--agent", "", "mine\n"])
def test_a_name_that_no_row_can_have_is_refused(name):
    with pytest.raises(SeamError, match="cannot be the name of a seam"):
        checked_name(name)
