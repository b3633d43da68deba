"""The page holds what came from anywhere: nothing of it becomes markup, nothing is lost, no secret stays, and it has a bound."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.reports.html import attempt, page
from pytest_harness.reports.html.attempt import attempt_data
from pytest_harness.reports.html.page import packed, unpacked
from pytest_harness.reports.html.pieces import LONGEST, Pieces
from pytest_harness.reports.secrets import masked

SNIPPETS = [
    "</script>",
    "<script>alert(1)</script>",
    "<!--",
    "]]>",
    '" onload="x',
    "\u202e",
    "\ud800",
    "\u2028",
    "{{ 7 * 7 }}",
    "&lt;",
    "\x00",
]
HOSTILE = st.lists(st.sampled_from(SNIPPETS) | st.text(max_size=8), max_size=6).map("".join)


class Tags(HTMLParser):
    """The elements of a page and the data in each script that is no program."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.held, self.open = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        known = dict(attributes)
        self.open = known.get("id") or known.get("data-attempt") if tag == "script" else None
        if self.open:
            self.held[self.open] = ""

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open:
            self.held[self.open] += data


def renamed(report, text):
    """The report with the text wherever a text can come from outside."""
    seams = []
    for seam in report.seams:
        requirements = tuple(
            each.model_copy(
                update={
                    "reasons": (text,),
                    "findings": tuple(
                        finding.model_copy(update={"expected": text, "seen": text, "where": text}) for finding in each.findings
                    ),
                }
            )
            for each in seam.requirements
        )
        attempts = tuple(each.model_copy(update={"name": text, "reason": text, "evidence": text}) for each in seam.attempts)
        seams.append(seam.model_copy(update={"name": text, "why": text, "requirements": requirements, "attempts": attempts}))
    return report.model_copy(update={"seams": tuple(seams), "sabotage": text})


@pytest.fixture(scope="session")
def plain_tags(judged):
    return Tags(page(renamed(judged.report, "plain"), lambda _: None)).tags


@settings(max_examples=20)
@given(HOSTILE.map("x{}".format))
def test_no_text_becomes_markup_and_none_is_lost(judged, plain_tags, text):
    hostile = Tags(page(renamed(judged.report, text), lambda _: None))
    assert hostile.tags == plain_tags
    told = unpacked(hostile.held["report-data"])["report"]
    assert told["seams"][0]["name"] == masked(text)


@settings(max_examples=25)
@given(HOSTILE)
def test_what_is_packed_comes_back_and_holds_no_markup(text):
    held = packed({"text": text})
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", held)
    assert unpacked(held) == {"text": text}


@given(st.lists(st.text(alphabet='{}, \n"a\ud800', max_size=30), max_size=5))
def test_the_pieces_of_any_text_make_the_text_again(texts):
    pieces = Pieces()
    places = [pieces.add(text) for text in texts]
    assert ["".join(pieces.table[place] for place in found) for found, _ in places] == texts


def test_a_body_that_is_too_long_is_cut_in_its_middle_and_says_so():
    pieces = Pieces()
    found, left_out = pieces.add("a" * LONGEST + "b" * 1000 + "end")
    shown = "".join(pieces.table[place] for place in found)
    assert left_out == 1003
    assert shown.startswith("aaa")
    assert shown.endswith("end")
    assert "[… 1003 characters are not on this page; the evidence has them …]" in shown


def test_an_attempt_that_does_not_fit_is_named_with_the_place_of_its_evidence(judged):
    text = page(judged.report, judged.evidence_of, largest=1)
    absent = re.findall(r'data-absent="([^"]+)"', text)
    assert len(absent) == 2
    assert all("The evidence is in evidence/" in each for each in absent)


def test_the_attempt_in_which_something_is_broken_is_held_first(judged):
    held = Tags(page(judged.report, judged.evidence_of, largest=1)).held
    pi = judged.report.seams[0].attempts[0]
    assert [name for name, data in held.items() if data and name != "report-data"] == [pi.id]


SECRETS = ("sk-proj-abcdefghijklmnopqrstuvwxyz", "ghp_abcdefghijklmnopqrstuvwxyz012345", "hf_abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_of_a_known_shape_is_on_the_page(judged, secret):
    broken = judged.report.seams[0].attempts[0]
    evidence = judged.evidence_of(broken)
    call = evidence.calls[0]
    received = call.received.model_copy(update={"body": f'{{"key": "{secret}"}}', "headers": {"x-own": secret, "X-Api-Key": "short"}})
    told = replace(evidence, calls=(call.model_copy(update={"received": received, "error": secret, "path": f"/v1?key={secret}"}),))
    text = page(renamed(judged.report, secret), lambda each: told if each.id == broken.id else None)
    held = [json.dumps(unpacked(data)) for data in Tags(text).held.values() if data]
    assert len(held) == 2
    assert not [each for each in (text, *held) if secret in each]
    assert '"X-Api-Key": "<redacted>"' in held[1]


def test_evidence_that_cannot_be_worked_out_costs_only_its_own_part_of_the_page(judged, monkeypatch):
    def fails(_):
        raise KeyError("damaged")

    monkeypatch.setattr(attempt, "graph_data", fails)
    data = attempt_data(judged.evidence_of(judged.report.seams[0].attempts[0]))
    assert data["turns"] == {"error": "KeyError: 'damaged'"}
    assert data["calls"][0]["forms"]["received"]
    assert data["trajectory"]["rows"]


def test_values_that_are_no_numbers_are_shown_as_they_were(judged):
    evidence = judged.evidence_of(judged.report.seams[0].attempts[0])
    sample = evidence.calls[-1].samples[0].model_copy(update={"token_ids": (1, "two", None, 2**60), "logprobs": (float("nan"), -0.5, None)})
    call = evidence.calls[-1].model_copy(update={"samples": (sample,)})
    told = unpacked(packed(attempt_data(replace(evidence, calls=(call,)))))["calls"][0]["samples"][0]
    assert told["ids"] == [1, "'two'", None, "1152921504606846976"]
    assert told["logprobs"] == ["nan", -0.5, None]


def test_numbers_that_json_cannot_write_are_texts_on_the_page(judged):
    seam = judged.report.seams[0].model_copy(update={"mean_reward": float("inf")})
    held = Tags(page(judged.report.model_copy(update={"seams": (seam,)}), lambda _: None)).held["report-data"]
    assert unpacked(held)["report"]["seams"][0]["mean_reward"] == "inf"
    assert unpacked(packed({"time": float("nan"), "list": (float("-inf"),)})) == {"time": "nan", "list": ["-inf"]}


def test_the_page_allows_only_its_own_script_and_style_and_no_request(judged):
    text = page(judged.report, lambda _: None)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', text) == []


def test_hostile_texts_are_seen_as_escapes_in_a_browser(judged, browser, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(
        page(renamed(judged.report, "<img src=x onerror=alert(1)>\u202ex\ud800</script>"), judged.evidence_of), errors="backslashreplace"
    )
    browser.open(path)
    assert browser.text(".matrix tbody a") == "<img src=x onerror=alert(1)>\\u202ex\\ud800</script>"
    browser.go("#/seam/0")
    assert browser.js("document.querySelectorAll('img').length") == 0
