"""The catalogue: what it holds, what it refuses, and that its page is what it says."""

import pytest

from pytest_harness.contract import registered
from pytest_harness.evidence import SeamFacts
from pytest_harness.requirements import (
    FAMILIES,
    Applies,
    RequirementsError,
    catalogue_versions,
    load_catalogue,
    read_catalogue,
    to_markdown,
)
from pytest_harness.resources import resource

ENTRY = """
[[requirement]]
id = "TOK-001"
title = "A title"
level = "MUST"
subjects = ["seam"]
statement = "A statement."
why = "A reason."
seen = "A place."
saboteurs = ["one"]
"""


def seam(**changes):
    return SeamFacts(**{"harness": "pi", "digest": "", "dialect": "chat", "streams": True, "trajectory": "atif", **changes})


def refusal(tmp_path, text):
    path = tmp_path / "2026.99.toml"
    path.write_text(text)
    with pytest.raises(RequirementsError) as error:
        read_catalogue(path)
    return str(error.value)


def test_every_requirement_has_exactly_one_check_and_every_check_a_requirement():
    assert sorted(registered()) == sorted(requirement.id for requirement in load_catalogue())


def test_every_family_has_requirements_in_the_order_of_their_numbers():
    for subject, first in (("seam", 1), ("proxy", 101)):
        families = {requirement.family for requirement in load_catalogue(subject=subject)}
        for family in families:
            ids = [requirement.id for requirement in load_catalogue(subject=subject) if requirement.family == family]
            assert ids == [f"{family}-{number:03}" for number in range(first, first + len(ids))]


def test_every_family_has_requirements_in_some_set():
    assert {each.family for subject in ("seam", "proxy") for each in load_catalogue(subject=subject)} == set(FAMILIES)


def test_the_newest_set_is_loaded_unless_another_is_named():
    assert load_catalogue().version == catalogue_versions()[-1]
    assert load_catalogue("2026.11").version == "2026.11"


def test_an_unknown_set_is_refused_with_those_that_there_are():
    with pytest.raises(RequirementsError, match=r"no requirement set '2026.10'; did you mean 2026.11\?; the sets are 2026.11"):
        load_catalogue("2026.10")


def test_a_requirement_is_found_by_its_id_and_an_unknown_one_refused_with_what_is_near():
    catalogue = load_catalogue()
    assert catalogue["TOK-001"].title == "Recorded ids are the engine's"
    with pytest.raises(RequirementsError, match=r"has no requirement 'TOK-01'; did you mean TOK-001"):
        catalogue["TOK-01"]


def test_requirements_on_streams_do_not_apply_to_a_seam_that_does_not_stream():
    catalogue = load_catalogue()
    streamed = {requirement.id for requirement in catalogue.applicable(seam())}
    whole = {requirement.id for requirement in catalogue.applicable(seam(streams=False))}
    assert streamed - whole == {"STR-004", "STR-005", "STR-006"}
    assert not whole - streamed


def test_requirements_on_the_trajectory_do_not_apply_to_a_seam_without_one():
    applicable = {requirement.family for requirement in load_catalogue().applicable(seam(trajectory="none"))}
    assert applicable == {requirement.family for requirement in load_catalogue()} - {"ATF"}


def test_requirements_on_the_script_apply_on_the_scripted_engine_alone():
    catalogue = load_catalogue()
    scripted = {requirement.id for requirement in catalogue.applicable(seam(), "scripted")}
    assert scripted - {requirement.id for requirement in catalogue.applicable(seam(), "vllm")} == {"PAR-008", "SEA-002", "SEA-003"}
    assert scripted == {requirement.id for requirement in catalogue.applicable(seam())}


def test_a_dialect_condition_holds_for_the_named_dialects_alone():
    assert Applies(dialects=("chat",)).to(seam())
    assert not Applies(dialects=("chat",)).to(seam(dialect="messages"))


def test_a_set_is_read_from_its_file(tmp_path):
    path = tmp_path / "2026.99.toml"
    path.write_text(ENTRY)
    assert [(requirement.id, requirement.level) for requirement in read_catalogue(path)] == [("TOK-001", "MUST")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[requirement", "is not TOML"),
        ("", r"must hold an array of tables [[requirement]] and nothing else"),
        (ENTRY + "[other]\n", r"must hold an array of tables [[requirement]] and nothing else"),
        (ENTRY + ENTRY, "TOK-001 stands there twice"),
        (ENTRY.replace("MUST", "MAY"), "TOK-001: level: Input should be 'MUST' or 'SHOULD'"),
        (ENTRY.replace("TOK-001", "ABC-1"), "ABC-1: id: String should match pattern"),
        (ENTRY.replace('["one"]', "[]"), "TOK-001: saboteurs:"),
        (ENTRY.replace("A reason.", "A reason"), "TOK-001: why: String should match pattern"),
        (ENTRY.replace("title =", "titel ="), "TOK-001: title: Field required"),
        (ENTRY + 'colour = "red"\n', "TOK-001: colour: Extra inputs are not permitted"),
    ],
)
def test_a_faulty_set_is_refused_with_file_entry_and_key(tmp_path, text, sentence):
    message = refusal(tmp_path, text)
    assert sentence in message
    assert "2026.99.toml" in message


def test_the_page_of_the_requirements_is_made_from_the_newest_set():
    page = resource("docs", "requirements.md").read_text(encoding="utf-8")
    assert page == to_markdown(load_catalogue()), "run python -m pytest_harness.requirements > docs/requirements.md"


def test_the_page_of_the_proxys_requirements_is_made_from_the_newest_set():
    page = resource("docs", "requirements-proxy.md").read_text(encoding="utf-8")
    assert page == to_markdown(load_catalogue(subject="proxy"), "proxy"), (
        "run python -m pytest_harness.requirements proxy > docs/requirements-proxy.md"
    )
