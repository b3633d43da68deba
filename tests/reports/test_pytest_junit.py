"""Pytest's own JUnit file tells of each test which requirement it was of, how binding that is, and what came of it."""

from pathlib import Path
from xml.etree import ElementTree

RECORD = Path(__file__).resolve().parents[2] / "fixtures" / "evidence" / "mini-swe-agent" / "local" / "scripted" / "no_verdict" / "1"


def test_pytests_own_junit_file_has_the_requirement_of_each_test_as_properties(run_pytest, tmp_path):
    done = run_pytest(tmp_path, "--replay", RECORD, "-k", "LGP-003 or TOK-009", "--junitxml", "own.xml", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    cases = ElementTree.parse(tmp_path / "own.xml").getroot().iter("testcase")
    found = [{each.get("name"): each.get("value") for each in case.iter("property")} for case in cases]
    named = {each["requirement"]: (each["family"], each["level"], each["result"]) for each in found if "requirement" in each}
    assert named == {"LGP-003": ("LGP", "MUST", "passed"), "TOK-009": ("TOK", "SHOULD", "passed")}
