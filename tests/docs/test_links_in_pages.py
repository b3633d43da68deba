"""Every link in the pages leads somewhere: to a file that is there, and to a heading that it has."""

import importlib.util
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

_spec = importlib.util.spec_from_file_location("pages", Path(__file__).with_name("pages.py"))
pages = importlib.util.module_from_spec(_spec)
sys.modules.setdefault("pages", pages)
_spec.loader.exec_module(pages)

REPORTS = sorted((pages.ROOT / "reports").rglob("*.md"))


def headings(page):
    """The anchors of a page, as GitHub makes them of its headings."""
    found, after = set(), False
    for token in pages.tokens(page):
        if after:
            text = "".join(child.content for child in token.children or () if child.type in ("text", "code_inline"))
            found.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
        after = token.type == "heading_open"
    return found


def links(page):
    for token in pages.tokens(page):
        for child in token.children or ():
            if child.type in ("link_open", "image"):
                yield str(child.attrs.get("href") or child.attrs.get("src"))


@pytest.mark.parametrize("page", [*pages.PAGES, *REPORTS], ids=lambda page: page.relative_to(pages.ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme in ("https", "http", "mailto"), f"{page.name}: {link}"
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        assert target.exists(), f"{page.name}: {link} leads nowhere"
        assert target.is_relative_to(pages.ROOT), f"{page.name}: {link} leads out of the repository"
        if parts.fragment and target.suffix == ".md":
            assert parts.fragment in headings(target), f"{page.name}: {link}: {target.name} has no such heading"
