"""Markdown: what is said reads well, and nothing that came from outside becomes markup."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_harness.reports.markdown import code, table, text

PARSER = MarkdownIt("commonmark").enable("table")
FOREIGN = st.text(min_size=1, max_size=60) | st.text(alphabet="`|\\*_<>[]()#~&@!-+=: \n\u202e\ud800a1.", min_size=1, max_size=40)


def kinds(markdown):
    """The kinds of everything that a reader of Markdown makes of it."""
    found = set()
    for token in PARSER.parse(markdown):
        found |= {token.type, *(child.type for child in token.children or ())}
    return found


@given(FOREIGN)
def test_foreign_text_in_a_table_is_one_cell_of_plain_text(raw):
    markup = kinds(table(["a", "b"], [[f"x{text(raw)}x", "last"]]))
    assert markup <= {token for part in ("table", "thead", "tbody", "tr", "th", "td") for token in (f"{part}_open", f"{part}_close")} | {
        "inline",
        "text",
    }


@given(FOREIGN)
def test_foreign_text_as_code_in_a_table_is_one_piece_of_code_and_the_cell_after_it_is_still_there(raw):
    tokens = PARSER.parse(table(["a", "b"], [[code(raw), "last"]]))
    cells = [token for token in tokens if token.type == "inline"]
    assert [cell.content for cell in cells][-1] == "last"
    assert len(cells) == 4
    assert [child.type for child in cells[2].children] == ["code_inline"]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("<img src=x onerror=alert(1)>", "\\<img src=x onerror=alert(1)\\>"),
        ("a\nb", "a\\\\nb"),
        ("\u202eabc", "\\\\u202eabc"),
        ("\ud800", "\\\\ud800"),
        ("https://example.com", "https\\://example.com"),
        ("@someone", "@&#8203;someone"),
    ],
)
def test_what_would_be_markup_or_cannot_be_seen_is_shown_as_what_it_is(raw, shown):
    assert text(raw) == shown


def test_a_long_text_is_cut_and_says_how_much_is_missing():
    assert text("x" * 2500).endswith("… and 500 more characters")
