"""The catalogue: what it holds, what it refuses, and that its page is what it says."""

import itertools

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
    read_set,
    to_markdown,
)
from pytest_harness.requirements.model import OUT_OF_REACH
from pytest_harness.requirements.released import digests
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


@pytest.mark.parametrize("family", FAMILIES)
def test_the_numbers_of_a_family_follow_each_other_those_of_proxies_from_101_and_those_of_engines_from_201(family):
    entries = [requirement for requirement in read_set() if requirement.family == family and not requirement.draft]
    numbers = [int(requirement.id[4:]) for requirement in entries]
    blocks = [list(block) for _, block in itertools.groupby(numbers, lambda number: number // 100)]
    assert [block for block in blocks if block != list(range(block[0], block[0] + len(block)))] == []
    assert [block[0] % 100 for block in blocks] == [1] * len(blocks)
    assert numbers == sorted(numbers)
    for subject, block in (("proxy", 1), ("engine", 2)):
        assert {each.id for each in entries if subject in each.subjects} == {
            each.id for each in entries if int(each.id[4:]) // 100 == block
        }


def test_the_families_follow_each_other():
    families = [requirement.family for requirement in read_set() if not requirement.draft]
    assert list(dict.fromkeys(families)) == [family for family, _ in itertools.groupby(families)]


def test_every_family_has_requirements():
    assert {requirement.family for requirement in read_set()} == set(FAMILIES)


def test_a_set_keeps_what_the_one_before_it_required():
    older, newer = read_set("2026.11"), read_set("2026.12")
    assert [requirement.id for requirement in older if requirement.id not in newer] == []
    assert {requirement.id: requirement.since for requirement in newer if requirement.id in older} == {each.id: "2026.11" for each in older}
    assert {requirement.since for requirement in newer if requirement.id not in older} <= {"2026.12", "draft"}


@pytest.mark.parametrize(("subject", "first"), [("seam", "TOK-001"), ("proxy", "TOK-101")])
@pytest.mark.parametrize("version", ["2026.11", "2026.12"])
def test_each_set_says_what_is_judged_of_a_subject(version, subject, first):
    catalogue = load_catalogue(version, subject)
    assert catalogue.version == version
    assert next(iter(catalogue)).id == first
    assert all(subject in requirement.subjects for requirement in catalogue)


def test_a_subject_of_which_a_set_says_nothing_is_refused():
    with pytest.raises(RequirementsError, match=r"set 2026.11 holds nothing for the subject runtime; the newest set is"):
        load_catalogue("2026.11", "runtime")


@pytest.mark.parametrize(("subject", "newest"), [("seam", "2026.12"), ("proxy", "2026.12"), ("sandbox", "2027.01")])
def test_the_newest_set_that_says_something_new_of_the_subject_is_loaded_unless_another_is_named(subject, newest):
    assert load_catalogue(subject=subject).version == newest
    assert load_catalogue("2026.12").version == "2026.12"


def test_a_set_that_extends_another_holds_what_that_one_holds_and_keeps_its_order():
    older, newer = read_set("2026.12"), read_set("2027.01")
    added = [each for each in newer if each.id not in older and not each.draft]
    assert [each for each in newer if each.id in older] == list(older)
    assert {each.since for each in added} == {"2027.01"}
    assert [each.id for each in load_catalogue("2027.01", "sandbox")] == [each.id for each in added]
    assert list(load_catalogue("2027.01", "engine")) == list(load_catalogue("2026.12", "engine"))


def test_drafts_come_with_the_newest_set_of_their_subject_and_with_no_older_one():
    assert [each.id for each in load_catalogue() if each.draft] == [each.id for each in load_catalogue("2026.12") if each.draft] != []
    assert [each.id for each in load_catalogue("2026.11") if each.draft] == []
    assert [each.id for each in load_catalogue(subject="sandbox") if each.draft and "sandbox" not in each.subjects] == []


@pytest.fixture
def sets(tmp_path, monkeypatch):
    """A folder of sets: ``sets(name, text)`` writes one."""
    folder = tmp_path / "requirements"
    folder.mkdir()
    monkeypatch.setattr("pytest_harness.requirements.catalogue._folder", lambda: folder)

    def write(version, text):
        (folder / f"{version}.toml").write_text(text)

    return write


@pytest.mark.parametrize("extended", ["2026.98", "2026.99", "2027.01", "nothing"])
def test_a_set_extends_an_older_one_that_there_is(sets, extended):
    sets("2026.99", f'extends = "{extended}"\n{ENTRY}')
    sets("2027.01", ENTRY)
    with pytest.raises(RequirementsError, match=f"requirement set 2026.99 extends '{extended}', which is no older set"):
        read_set("2026.99")


def test_a_set_that_says_again_what_it_extends_is_refused(sets):
    sets("2026.98", ENTRY)
    sets("2026.99", f'extends = "2026.98"\n{ENTRY}')
    with pytest.raises(RequirementsError, match=r"2026.99: TOK-001 is in set 2026.98 already, which it extends"):
        read_set("2026.99")


def test_what_is_extended_is_part_of_what_was_released(sets):
    sets("2026.98", ENTRY)
    sets("2026.99", f'extends = "2026.98"\n{ENTRY.replace("TOK-001", "TOK-002")}')
    assert digests("2026.99")["2026.99"]["extends"] == "2026.98"
    assert set(digests("2026.99")["2026.99"]) == {"TOK-002", "extends"}


def test_an_unknown_set_is_refused_with_those_that_there_are():
    with pytest.raises(RequirementsError, match=r"no requirement set '2026.10'; did you mean .*\?; the sets are 2026.11, 2026.12"):
        load_catalogue("2026.10")


def test_a_requirement_is_found_by_its_id_and_an_unknown_one_refused_with_what_is_near():
    catalogue = load_catalogue()
    assert catalogue["TOK-001"].title == "Recorded ids are the engine's"
    with pytest.raises(RequirementsError, match=r"has no requirement 'TOK-01'; did you mean TOK-0"):
        catalogue["TOK-01"]


def test_requirements_on_streams_do_not_apply_to_a_seam_that_does_not_stream():
    catalogue = load_catalogue()
    streamed = {requirement.id for requirement in catalogue.applicable(seam())}
    whole = {requirement.id for requirement in catalogue.applicable(seam(streams=False))}
    assert {"STR-004", "STR-005", "STR-006"} <= streamed - whole == {each.id for each in catalogue if each.applies.streams} & streamed
    assert not whole - streamed


def test_requirements_on_the_trajectory_do_not_apply_to_a_seam_without_one():
    catalogue = load_catalogue()
    with_one, without = ({each.id for each in catalogue.applicable(seam(trajectory=kind))} for kind in ("atif", "none"))
    assert with_one - without == {each.id for each in catalogue if each.family == "ATF"}


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
    assert page == to_markdown(read_set()), "run python -m pytest_harness.requirements > docs/requirements.md"


@pytest.mark.parametrize("version", catalogue_versions())
@pytest.mark.parametrize("acts", ["commands", "files"])
def test_what_is_out_of_reach_applies_and_is_occasional(version, acts):
    catalogue = load_catalogue(version)
    reach, beyond = ({each.id: each.occasional for each in catalogue.applicable(seam(acts_by=by))} for by in ("calls", acts))
    assert reach == {each.id: each.occasional for each in catalogue.applicable(seam())}
    changed = {name for name in reach if beyond[name] != reach[name]}
    assert changed == {name for name in OUT_OF_REACH[acts] if name in reach}
    assert reach.keys() == beyond.keys()


def test_only_what_there_is_can_be_out_of_reach():
    assert all(name in load_catalogue() for names in OUT_OF_REACH.values() for name in names)
