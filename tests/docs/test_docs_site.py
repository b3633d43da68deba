"""The site: links that leave docs/ lead on, and one that leads nowhere is said, which ends a strict build."""

import logging
from pathlib import Path

import pytest
from mkdocs.config import load_config
from mkdocs.structure.files import get_files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
BLOB = "https://github.com/harness-conformance/harness-conformance/blob/main"


@pytest.fixture
def site():
    """The configuration and the files of the site, as mkdocs has them before it renders anything."""
    config = load_config(str(ROOT / "mkdocs.yml"))
    config = config.plugins.on_config(config)
    return config, config.plugins.on_files(get_files(config), config=config)


@pytest.fixture
def led(site):
    """What becomes of the text of a page."""
    config, files = site

    def run(page, text):
        return config.plugins.on_page_markdown(text, page=Page(None, files.get_file_from_path(page), config), config=config, files=files)

    return run


@pytest.mark.parametrize(
    ("page", "link", "leads_to"),
    [
        ("index.md", "docs/gate.md", "gate.md"),
        ("index.md", "docs/commands.md#exit-codes", "commands.md#exit-codes"),
        ("index.md", "reports/seams/pi-in-local.md", "reports/seams/pi-in-local.md"),
        ("index.md", "examples/own-harness", f"{BLOB}/examples/own-harness"),
        ("gate.md", "../action.yml", f"{BLOB}/action.yml"),
        ("gate.md", "../README.md#start", "index.md#start"),
        ("gate.md", "report.md", "report.md"),
        ("reports/matrix.md", "seams/pi-in-local.md", "seams/pi-in-local.md"),
        ("gate.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("gate.md", "#here", "#here"),
    ],
)
def test_a_link_leads_to_where_its_target_is_in_the_site_or_to_the_repository(led, page, link, leads_to):
    assert led(page, f"See [this]({link}).") == f"See [this]({leads_to})."


def test_what_stands_in_code_is_no_link(led):
    text = "`[this](../nowhere.md)`\n\n```text\n[this](../nowhere.md)\n```\n"
    assert led("gate.md", text) == text


def test_a_link_that_leads_nowhere_is_a_warning(led, caplog):
    with caplog.at_level(logging.WARNING, "mkdocs.hooks.docs_site"):
        led("gate.md", "See [this](../nowhere.md).")
    assert [record.getMessage() for record in caplog.records] == ["docs/gate.md: ../nowhere.md leads nowhere"]


def test_every_page_of_docs_has_a_place_in_the_navigation(site):
    listed = str(site[0].nav)
    assert all(f"'{path.name}'" in listed for path in (ROOT / "docs").glob("*.md"))
