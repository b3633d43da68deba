"""The sources of the catalogue: every property is accounted for, by requirements that there are or by a reason."""

import pytest
from pydantic import ValidationError

from pytest_harness.requirements import __main__ as command
from pytest_harness.requirements import read_set
from pytest_harness.requirements.sources import Property, Source, faults_page, left_out, read_sources
from pytest_harness.resources import resource
from pytest_harness.scenarios import ScenarioTable

SOURCES = {source.name: source for source in read_sources()}
PROPERTIES = [(source, each) for source in SOURCES.values() for each in source.properties]


def test_every_requirement_that_a_property_names_is_in_the_newest_set():
    catalogue = read_set()
    assert [(each.id, name) for _, each in PROPERTIES for name in each.by if name not in catalogue] == []


def test_every_fault_that_a_property_names_is_a_saboteur_of_some_requirement_or_a_scenario():
    known = {name for requirement in read_set() for name in requirement.saboteurs} | set(ScenarioTable.load())
    assert [(each.id, name) for _, each in PROPERTIES for name in each.faults if name not in known] == []


def test_all_135_properties_of_a_capture_are_accounted_for():
    assert [each.id for each in SOURCES["openenv"].properties] == [str(number) for number in range(1, 136)]


@pytest.mark.parametrize("name", SOURCES)
def test_no_property_of_a_source_is_there_twice(name):
    ids = [each.id for each in SOURCES[name].properties]
    assert sorted(set(ids)) == sorted(ids)


def test_every_published_report_has_its_link_and_a_fault_that_is_named_after_it_or_a_reason():
    reports = SOURCES["reports"].properties
    assert len(reports) > 80
    assert [each.id for each in reports if not (each.link or "").startswith("https://")] == []
    assert [each.id for each in reports if not each.faults and each.left_out is None] == []


def test_the_page_of_published_faults_is_up_to_date():
    page = resource("docs", "faults.md").read_text(encoding="utf-8")
    assert page == faults_page(SOURCES["reports"]), "run python -m pytest_harness.requirements faults > docs/faults.md"
    assert page.count("](https://") == len(SOURCES["reports"].properties)


def test_what_is_left_out_stands_in_the_decisions_with_the_reason():
    text = left_out(SOURCES.values())
    page = resource("docs", "decisions.md").read_text(encoding="utf-8")
    assert text in page, "run python -m pytest_harness.requirements left-out and put what it prints into docs/decisions.md"


def test_the_command_prints_what_is_left_out(capsys):
    assert command.main(["left-out"]) == 0
    assert capsys.readouterr().out == left_out(SOURCES.values())


def test_a_property_that_names_neither_requirement_nor_fault_nor_reason_is_refused():
    with pytest.raises(ValidationError, match="7 names neither a requirement nor a reason"):
        Property(id="7", says="something")


def test_what_is_asked_for_in_part_says_which_requirements_ask_for_the_rest():
    part = Property(id="7", says="something", by=("TOK-001",), left_out="A record cannot show it.")
    whole = Property(id="8", says="something else", by=("TOK-002",))
    text = left_out([Source(name="s", title="A source", properties=(part, whole))])
    assert text == "### A source\n\n- *7, something* (TOK-001 for the rest): A record cannot show it.\n"
