"""The page in a real browser, opened from disk: from the matrix to the bytes, by mouse and keys, in light and dark, on a phone."""

import json
import os
from pathlib import Path
from typing import get_args

import pytest

from pytest_harness.reports.html import page
from pytest_harness.requirements import FAMILIES
from pytest_harness.verdict import Status

POORLY_READ = """(() => {
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const linear = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parts(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const poor = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.closest("script, style, svg, option")) continue;
    const [more, less] = [light(parts(getComputedStyle(element).color)), light(ground(element))].sort((one, other) => other - one);
    if ((more + 0.05) / (less + 0.05) < 4.5) poor.add(`${element.tagName}.${element.className} ${element.textContent.slice(0, 30)}`);
  }
  return [...poor];
})()"""
"""What has less contrast than WCAG asks of small text."""


@pytest.fixture(scope="module")
def opened(judged, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page(judged.report, judged.evidence_of), encoding="utf-8")
    return path


@pytest.fixture
def at(browser, opened):
    """The browser at the matrix; pictures are kept where the variable names a folder."""
    browser.open(opened)
    yield browser
    if folder := os.environ.get("REPORT_PICTURES"):
        name = os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split(" ")[0]
        browser.picture(Path(folder) / f"{name}.png")


def cells(browser):
    return browser.js(
        "[...document.querySelectorAll('.matrix tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    )


def attempt_of(judged, harness):
    return next(attempt for seam in judged.report.seams if seam.harness == harness for attempt in seam.attempts)


def test_the_page_asks_nobody_for_anything(at, opened):
    assert {url.split("#")[0] for url in at.requests} <= {"about:blank", opened.as_uri()}


def test_the_matrix_has_a_row_for_each_seam_and_says_its_verdict(at, judged):
    assert [row[:2] for row in cells(at)] == [[seam.name, seam.status] for seam in judged.report.seams]


def test_a_cell_leads_to_the_requirement_its_finding_the_call_and_the_token(at, judged):
    at.go("#/?view=requirements")
    at.follow("td.bad a[aria-label*='LGP-003']")
    assert "LGP-003" in at.text("h1")
    assert "finite numbers of at most 0" in at.text(".card")
    at.follow(".card .links a")
    assert at.text("h1").startswith("Call ")
    assert at.js("document.querySelectorAll('.tok.lp-bad').length") == 2  # one of them is the legend's
    assert at.js("document.querySelector('.strip .lp-bad i').innerText") == "nan"


def test_the_command_that_judges_again_is_there_to_copy(at, judged):
    told = at.js("[...document.querySelectorAll('.command code')].map((code) => code.textContent)")
    replays = {finding.replay for seam in judged.report.seams for each in seam.requirements for finding in each.findings}
    assert told
    assert set(told) <= replays


def test_a_call_shows_its_four_forms_side_by_side_as_they_were(at, judged):
    attempt = attempt_of(judged, "mini-swe-agent")
    evidence = judged.evidence_of(attempt)
    at.go(f"#/attempt/{attempt.id}/call/0")
    assert at.js("[...document.querySelectorAll('.pane h3')].map((each) => each.firstChild.data)") == [
        "received",
        "forwarded",
        "replied",
        "delivered",
    ]
    at.js("document.querySelector(\"button[aria-pressed='true']\").click()")
    shown = at.js("[...document.querySelectorAll('.pane pre')].map((each) => each.textContent)")
    call = evidence.calls[0]
    assert shown == [call.received.body, call.forwarded.body, call.replied.body, call.delivered.body]


def test_json_in_lines_says_the_same_as_json_as_it_came(at, judged):
    attempt = attempt_of(judged, "mini-swe-agent")
    at.go(f"#/attempt/{attempt.id}/call/0")
    shown = at.js("document.querySelector('.pane pre').textContent")
    assert shown.count("\n") > 20
    assert json.loads(shown) == json.loads(judged.evidence_of(attempt).calls[0].received.body)


def test_what_the_proxy_added_is_marked(at, judged):
    at.go(f"#/attempt/{attempt_of(judged, 'mini-swe-agent').id}/call/0")
    marked = at.js("[...document.querySelectorAll('.pane')][1].querySelectorAll('mark.only').length")
    text = at.js("[...document.querySelectorAll('.pane')][1].querySelector('mark.only').textContent")
    assert marked
    assert "logprobs" in text


def test_the_place_that_a_finding_speaks_of_is_marked(at, judged):
    attempt = attempt_of(judged, "mini-swe-agent")
    at.go(f"#/attempt/{attempt.id}/call/0?form=replied&at=finish_reason")
    assert at.text(".pane.accused h3").startswith("replied")
    assert "finish_reason" in at.text(".pane.accused mark.hit")


def test_the_graph_has_a_line_for_each_call_and_leads_to_it(at, judged):
    attempt = attempt_of(judged, "pi")
    at.go(f"#/attempt/{attempt.id}")
    assert at.js("document.querySelectorAll('.graph a').length") == attempt.calls
    assert at.js("document.querySelectorAll('.graph .link').length") == attempt.calls - 1
    place = at.js("document.querySelector('.graph a').getAttribute('href')")
    at.go(place)
    assert at.text("h1").startswith("Call 0")


def test_the_trajectory_stands_beside_the_capture(at, judged):
    attempt = attempt_of(judged, "pi")
    at.go(f"#/attempt/{attempt.id}")
    assert at.js("document.querySelectorAll('.beside > li').length") >= attempt.calls
    assert "the same" in at.text(".compared")


def test_an_attempt_without_a_reward_is_drawn_apart_from_zero(at, judged):
    seam = next(seam for seam in judged.report.seams if seam.harness == "mini-swe-agent")
    at.go(f"#/seam/{judged.report.seams.index(seam)}")
    assert at.js("document.querySelectorAll('.rewards .no-reward').length") == 1
    assert at.js("document.querySelectorAll('.rewards .reward').length") == 0
    assert "none" in at.text(".plain")


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ("harness=pi", ["pi in local"]),
        ("engine=scripted", ["pi in local", "gemini-cli in local", "mini-swe-agent in local"]),
        ("outcome=failed", ["pi in local"]),
        ("sandbox=local&family=DIA", ["gemini-cli in local"]),
        ("outcome=deviation&level=MUST", ["gemini-cli in local", "mini-swe-agent in local"]),
        ("family=ATF&q=two+underscores", ["gemini-cli in local"]),
        ("q=nan+at+position", ["pi in local"]),
        ("q=nothing+is+called+so", []),
    ],
)
def test_a_filter_leaves_the_seams_that_have_what_is_asked_for(at, chosen, left):
    at.go(f"#/?{chosen}")
    assert [row[0] for row in cells(at)] == left


def test_typing_into_the_search_filters_and_stays_in_the_address(at):
    at.key("/")
    for letter in "gemini":
        at.key(letter)
    assert [row[0] for row in cells(at)] == ["gemini-cli in local"]
    assert at.js("location.hash") == "#/?q=gemini"


def test_arrow_keys_go_from_cell_to_cell_and_only_one_is_a_stop_of_the_tab_key(at):
    at.js("document.querySelector('.matrix tbody a').focus()")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        at.key(key)
    place = at.js("[document.activeElement.closest('tr').rowIndex, document.activeElement.closest('td').cellIndex]")
    assert place == [2, 3]
    assert at.js("document.querySelectorAll(\".matrix tbody a[tabindex='0']\").length") == 1


def test_keys_go_on_back_and_up(at, judged):
    attempt = attempt_of(judged, "pi")
    at.go(f"#/attempt/{attempt.id}/call/0")
    at.key("n")
    at._shows(f"#/attempt/{attempt.id}/call/1")
    at.key("p")
    at._shows(f"#/attempt/{attempt.id}/call/0")
    at.key("u")
    at._shows(f"#/attempt/{attempt.id}")
    assert at.js("document.activeElement.tagName") == "H1"


def test_the_ground_is_dark_where_the_system_says_so_and_the_switch_overrules_it(at):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = at.js(ground)
    at.prefers("dark")
    dark = at.js(ground)
    assert light != dark
    at.key("t")
    assert at.text("#theme-button") == "Theme: light"
    assert at.js(ground) == light
    at.key("t")
    at.prefers("light")
    assert at.js(ground) == dark
    at.key("t")
    assert at.js(ground) == light


def test_every_text_can_be_read_against_its_ground_in_light_and_dark(at):
    for scheme in ("light", "dark"):
        at.prefers(scheme)
        for place in ("#/?view=requirements", "#/seam/0", "#/seam/0/LGP-003"):
            at.go(place)
            assert at.js(POORLY_READ) == []


def test_on_a_phone_nothing_but_tables_and_drawings_is_wider_than_the_screen(at, judged):
    at.resize(390, 800)
    attempt = attempt_of(judged, "pi")
    for place in ("#/seam/0", f"#/attempt/{attempt.id}", f"#/attempt/{attempt.id}/call/1", "#/"):
        at.go(place)
        assert at.js("document.documentElement.scrollWidth") <= 390


def test_an_address_that_names_nothing_is_answered_by_a_sentence(at):
    for place in ("#/seam/99", "#/seam/0/XYZ-001", "#/attempt/none"):
        at.go(place)
        assert at.text("h1") == "This cannot be shown"


def test_each_field_has_a_label_and_each_link_and_button_a_name(at, judged):
    nameless = """[...document.querySelectorAll('a, button, input, select')].filter((each) => !(each.getAttribute('aria-label') ||
      each.textContent.trim() || each.labels?.length)).length"""
    for place in ("#/", "#/seam/0", f"#/attempt/{attempt_of(judged, 'pi').id}", f"#/attempt/{attempt_of(judged, 'pi').id}/call/0"):
        at.go(place)
        assert at.js(nameless) == 0
        assert at.js("document.querySelectorAll('h1').length") == 1


def test_every_seam_of_many_is_in_the_matrix_once_one_has_scrolled_to_it(browser, judged, tmp_path):
    (seam, *_) = judged.report.seams
    many = tuple(seam.model_copy(update={"name": f"harness-{number} in local"}) for number in range(40))
    path = tmp_path / "index.html"
    path.write_text(page(judged.report.model_copy(update={"seams": many}), lambda _: None), encoding="utf-8")
    browser.open(path, "#/?view=requirements")
    scroll = "(done) => { const look = () => { const end = document.querySelector('.matrix tr.end'); if (!end) return done(); \
end.scrollIntoView(); requestAnimationFrame(look); }; look(); }"
    browser.js(f"new Promise({scroll})")
    assert [row[0] for row in cells(browser)] == [seam.name for seam in many]


def test_the_verdicts_and_families_that_are_shown_are_explained_in_words(at, judged):
    said = at.js("[...document.querySelectorAll('.legend')].map((each) => each.innerText).join(' ')")
    for name in [seam.status for seam in judged.report.seams] + [
        FAMILIES[family] for seam in judged.report.seams for family in seam.families
    ]:
        assert name in said
    assert sorted(at.js("Object.keys(VERDICTS)")) == sorted(get_args(Status))
