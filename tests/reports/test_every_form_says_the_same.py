"""Every form of one report is read back, and must say the same of each seam and each requirement as the report itself."""

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from pytest_harness.reports.counts import Count
from pytest_harness.reports.files import write_files
from pytest_harness.reports.html.page import unpacked

STANDINGS = ("passed", "failed", "unstable", "deviation", "error", "unverifiable", "not exercised", "did not come up")


@pytest.fixture
def written(judged, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    write_files(judged.report, tmp_path, judged.evidence_of)
    return tmp_path


def truth(report):
    """What is to be said: of each seam the verdict and the counts of its families, of each requirement its level and how it stands."""
    return {
        seam.name: {
            "verdict": seam.status,
            "families": {family: str(Count.of(standings)) for family, standings in seam.families.items()},
            "checks": (seam.ran, seam.required),
            "requirements": {each.id: (each.level, each.standing) for each in seam.requirements},
        }
        for seam in report.seams
    }


def told(report, *parts):
    return {seam: {part: said[part] for part in parts} for seam, said in truth(report).items()}


def cells(line):
    return [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def tables(markdown):
    """The rows of all tables of a page as dictionaries by their heads."""
    found, heads = [], None
    for line in markdown.splitlines():
        if not line.startswith("|"):
            heads = None
        elif heads is None:
            heads = cells(line)
        elif not set(line) <= set("|-: "):
            found.append(dict(zip(heads, cells(line), strict=True)))
    return found


def standing_in_words(words):
    (standing,) = [each for each in STANDINGS if words == each or words.startswith(f"{each}:")]
    return {"not exercised": "not_exercised", "did not come up": "not_exercised"}.get(standing, standing)


def from_json(folder):
    report = json.loads((folder / "report.json").read_text())
    return from_document(report)


def from_document(report):
    return {
        seam["name"]: {
            "verdict": seam["status"],
            "families": {family: str(Count.of(standings)) for family, standings in seam["families"].items()},
            "checks": (seam["ran"], seam["required"]),
            "requirements": {each["id"]: (each["level"], each["standing"]) for each in seam["requirements"]},
        }
        for seam in report["seams"]
    }


def from_ctrf(folder):
    said = {}
    for test in json.loads((folder / "ctrf.json").read_text())["results"]["tests"]:
        seam = said.setdefault(test["suite"][0], {"requirements": {}})
        if "requirement" in test["labels"]:
            seam["requirements"][test["labels"]["requirement"]] = (test["labels"]["level"], test["rawStatus"])
        else:
            seam["verdict"] = test["rawStatus"]
    return said


def from_junit(folder):
    said = {}
    for suite in ElementTree.parse(folder / "junit.xml").getroot():
        known = properties(suite)
        said[suite.get("name")] = {
            "verdict": known["verdict"],
            "checks": (int(known["ran"]), int(known["required"])),
            "requirements": {
                own["requirement"]: (own["level"], own["said"])
                for case in suite.iter("testcase")
                if "requirement" in (own := properties(case))
            },
        }
    return said


def properties(element):
    return {each.get("name"): each.get("value") for each in element.find("properties")}


def from_matrix(path):
    rows = [row for row in tables(path.read_text()) if "verdict" in row]
    names = [re.sub(r"^\[(.*)\]\(.*\)$", r"\1", row.pop("seam")) for row in rows]
    return {name: {"verdict": row.pop("verdict"), "families": row} for name, row in zip(names, rows, strict=True)}


def from_pages(folder):
    said = {}
    for page in (folder / "pages").iterdir():
        text = page.read_text()
        ran, required = re.search(r"Required checks: (\d+) of (\d+) ran", text).groups()
        said[re.search(r"^# (.*)", text)[1]] = {
            "verdict": re.search(r"^\*\*(\w+)\*\*", text, re.MULTILINE)[1],
            "checks": (int(ran), int(required)),
            "requirements": {
                row["id"]: (row["level"].split(",")[0], standing_in_words(row["stands"])) for row in tables(text) if "stands" in row
            },
        }
    return said


class Page(HTMLParser):
    """The static table of the HTML page, and the data that it holds."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.data, self.cell = [], "", None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        self.cell = tag if tag in ("td", "th") or dict(attributes).get("id") == "report-data" else self.cell

    def handle_endtag(self, tag):
        self.cell = None if tag == self.cell or tag == "script" else self.cell

    def handle_data(self, data):
        if self.cell == "script":
            self.data += data
        elif self.cell and data.strip():
            self.rows[-1].append(data.strip())


def without_absent(said):
    """Matrices have a cell for every family; ``-`` also where none of its requirements applies."""
    return {
        seam: {**parts, "families": {family: count for family, count in parts["families"].items() if count != "-"}}
        for seam, parts in said.items()
    }


def test_the_json_says_it(judged, written):
    assert from_json(written) == truth(judged.report)


def test_ctrf_says_it(judged, written):
    assert from_ctrf(written) == told(judged.report, "verdict", "requirements")


def test_junit_says_it(judged, written):
    assert from_junit(written) == told(judged.report, "verdict", "checks", "requirements")


def test_the_matrix_in_markdown_says_it(judged, written):
    assert without_absent(from_matrix(written / "matrix.md")) == without_absent(told(judged.report, "verdict", "families"))


def test_the_summary_of_a_github_step_says_it(judged, written):
    assert without_absent(from_matrix(written / "summary.md")) == without_absent(told(judged.report, "verdict", "families"))


def test_the_pages_in_markdown_say_it(judged, written):
    assert from_pages(written) == told(judged.report, "verdict", "checks", "requirements")


def test_the_badge_says_it(judged, written):
    message = json.loads((written / "badge.json").read_text())["message"]
    counted = {status: int(count) for count, status in (part.split() for part in message.split(", "))}
    verdicts = [seam.status for seam in judged.report.seams]
    assert counted == {status: verdicts.count(status) for status in verdicts}


def test_the_page_says_it_without_scripts_and_in_its_data(judged, written):
    page = Page((written / "index.html").read_text())
    heads, *rows = [row for row in page.rows if row]
    said = {name: {"verdict": verdict, "families": dict(zip(heads[2:], counts, strict=True))} for name, verdict, *counts in rows}
    assert without_absent(said) == without_absent(told(judged.report, "verdict", "families"))
    assert from_document(unpacked(page.data)["report"]) == truth(judged.report)


def test_the_page_says_it_in_a_browser(judged, written, browser):
    browser.open(written / "index.html")
    row = "[...document.querySelectorAll('.matrix tr')].map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    heads, *rows = browser.js(row)
    said = {name: {"verdict": verdict, "families": dict(zip(heads[2:], counts, strict=True))} for name, verdict, *counts in rows}
    assert without_absent(said) == without_absent(told(judged.report, "verdict", "families"))
    browser.go("#/?view=requirements")
    labels = browser.js("[...document.querySelectorAll('.matrix td a')].map((link) => link.getAttribute('aria-label'))")
    found = {seam.name: {} for seam in judged.report.seams}
    for label in labels:
        seam, requirement, words = re.fullmatch(r"(.+ in \w+), (\w{3}-\d{3}) .*: ([a-z ]+)", label).groups()
        found[seam][requirement] = standing_in_words(words)
    assert found == {
        seam: {each: standing for each, (_, standing) in parts["requirements"].items()} for seam, parts in truth(judged.report).items()
    }


@pytest.mark.parametrize(
    ("name", "read", "before", "after"),
    [
        ("ctrf.json", from_ctrf, '"rawStatus": "failed"', '"rawStatus": "passed"'),
        ("junit.xml", from_junit, 'name="said" value="failed"', 'name="said" value="passed"'),
        ("report.json", from_json, '"standing": "failed"', '"standing": "passed"'),
    ],
)
def test_a_form_that_hides_a_failure_would_be_noticed(judged, written, name, read, before, after):
    text = (written / name).read_text()
    assert before in text
    honest = read(written)
    (written / name).write_text(text.replace(before, after, 1))
    assert read(written) != honest
