"""The seam table: what is bundled, what a user may add, and how a faulty row is told."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from pytest_harness.requirements import load_catalogue
from pytest_harness.resources import resource
from pytest_harness.scenarios import Scenario, ScenarioTable
from pytest_harness.seams import SeamError, SeamTable, json_schema, read_seams

ROW = """\
name = "mine"
title = "my agent"
homepage = "https://example.org"
dialect = "chat"
streams = true
scenarios = ["edit_file"]

[install]
kind = "npm"
package = "mine"
version = "1.0.0"
node = "24.19.0"
commands = { mine = "cli.js" }

[agent]
harbor = "pi"
base_url = "{url}/v1"
env = { KEY = "{key}" }
"""

WITH_HARBOR = """\
name = "mine"
title = "my agent"
homepage = "https://example.org"
dialect = "chat"
streams = true
scenarios = ["edit_file"]
install = { kind = "harbor" }
agent = { harbor = "mine" }
"""


def row(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def fault(folder: Path, old: str, new: str) -> str:
    assert old in ROW
    with pytest.raises(SeamError) as caught:
        read_seams(row(folder, ROW.replace(old, new)))
    return str(caught.value).replace(f"{folder.name}/", "")


def test_the_bundled_rows_load_and_the_two_first_harnesses_are_among_them():
    assert {"mini-swe-agent", "pi"} <= set(SeamTable.load().names)


def test_every_bundled_row_fits_the_published_schema():
    schema = json.loads(resource("seams", "seam.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    table = SeamTable.load()
    for name in {table[name].harness for name in table}:
        jsonschema.validate(tomllib.loads(resource("seams", f"{name}.toml").read_text()), schema)


def test_the_committed_schema_is_the_one_the_models_give():
    committed = json.loads(resource("seams", "seam.schema.json").read_text())
    assert committed == json_schema(), (
        "seams/seam.schema.json is stale; write json.dumps(pytest_harness.seams.json_schema(), indent=2) into it"
    )


def test_the_schema_describes_every_key():
    schema = json_schema()
    undescribed = [
        f"{name}.{key}"
        for name, part in [("Seam", schema), *schema["$defs"].items()]
        for key, value in part.get("properties", {}).items()
        if name != "Deviation" and key != "kind" and "description" not in value and "$ref" not in value
    ]
    assert undescribed == []


def test_a_row_of_the_user_stands_beside_the_bundled_ones_and_replaces_one_of_its_name(tmp_path):
    row(tmp_path, ROW)
    row(tmp_path, ROW.replace('name = "mine"', 'name = "pi"'), "pi")
    table = SeamTable.load(tmp_path)
    assert "mine" in table.names
    assert table["pi"].title == "my agent"
    assert table["mine"].folder == tmp_path


def test_the_table_of_sandboxes_is_not_taken_for_a_row(tmp_path):
    row(tmp_path, "anything = 1", "sandboxes")
    assert "sandboxes" not in SeamTable.load(tmp_path).names


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SeamError, match="gone: no such folder found, a folder with one TOML file a harness expected"):
        SeamTable.load(tmp_path / "gone")


def test_an_unknown_name_lists_what_is_near_and_what_is_known():
    with pytest.raises(SeamError) as caught:
        SeamTable.load().get("mini-swe-agnet")
    assert str(caught.value).startswith("there is no harness 'mini-swe-agnet'; did you mean mini-swe-agent? known: ")
    known = r"^there is no harness 'qqqqqq'; known: .*mini-swe-agent, .*pi.*; .* your own is named with --seams$"
    with pytest.raises(SeamError, match=known):
        SeamTable.load().get("qqqqqq")


def test_another_version_changes_the_install_and_the_digest_and_nothing_else():
    table = SeamTable.load()
    pinned, other, newest = table.get("pi"), table.get("pi@1.5.0"), table.get("pi@latest")
    assert (pinned.version, other.version, newest.version) == ("1.6.0", "1.5.0", "latest")
    assert len({pinned.facts.digest, other.facts.digest, newest.facts.digest}) == 3
    assert other.agent == pinned.agent
    assert other.folder == pinned.folder
    assert table.get("pi@1.6.0").facts == pinned.facts


def test_a_version_that_cannot_be_asked_for_is_refused(tmp_path):
    row(
        tmp_path,
        ROW.replace(ROW[ROW.index("kind =") : ROW.index("[agent]")], 'kind="preinstalled"\npath="."\nversion="1"\ncommands={mine="x"}\n\n'),
    )
    table = SeamTable.load(tmp_path)
    with pytest.raises(SeamError, match="mine is installed already, in the version that it has: leave @2 out"):
        table.get("mine@2")
    with pytest.raises(SeamError, match="'mine@' ends in @"):
        table.get("mine@")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"1.0.0"', "1", 'mine.toml: install.version: 1 found, a string such as "1.6.0" expected'),
        ("streams = true", 'streams = "yes"', 'mine.toml: streams: "yes" found, true or false expected'),
        ('"chat"', '"caht"', 'mine.toml: dialect: "caht" found, "chat", "responses", "messages" or "gemini" expected'),
        ('kind = "npm"', 'kind = "nmp"', 'mine.toml: install.kind: "nmp" found, "npm", "pypi", "preinstalled", "harbor" expected'),
        ('kind = "npm"\n', "", 'mine.toml: install.kind: nothing found, "npm" or "pypi" or "preinstalled" or "harbor" expected'),
        ('title = "my agent"\n', "", 'mine.toml: title: nothing found, a value such as "pi coding agent" expected'),
        ("title =", "titel =", "mine.toml: titel: unknown key found, title expected"),
        ('package = "mine"', 'packages = "mine"', "mine.toml: install.packages: unknown key found, package expected"),
        ('harbor = "pi"\n', "", "mine.toml: agent: neither of harbor and command found, exactly one expected"),
        ('harbor = "pi"', 'harbor = "pi"\ncommand = "x"', "mine.toml: agent: both of harbor and command found, exactly one expected"),
        ('{ KEY = "{key}" }', "3", 'mine.toml: agent.env: 3 found, a table such as {"OPENAI_API_KEY": "{key}"} expected'),
        ('"{key}"', '"{kee}"', "mine.toml: agent.env.KEY: placeholder {kee} found, one of {key} {model} {url} expected"),
        ('"{url}/v1"', '"{steps}"', "mine.toml: agent.base_url: placeholder {steps} found, one of {key} {model} {url} expected"),
        ('["edit_file"]', "[]", 'mine.toml: scenarios: [] found, at least one entry such as ["edit_file", "explore"] expected'),
        ('name = "mine"', 'name = "other"', 'mine.toml: name: "other" found, "mine" as in the file\'s name expected'),
        (
            'harbor = "pi"',
            'harbor = "pi"\ntimeout_sec = 0',
            "mine.toml: agent.timeout_sec: 0 found, a number greater than 0 such as 120 expected",
        ),
        (
            'harbor = "pi"',
            'harbor = "pi"\nfields = { env = 1 }',
            "mine.toml: agent: fields.env found, but the row has its own key for that; set it there",
        ),
    ],
)
def test_a_fault_names_file_key_what_was_found_and_what_was_expected(tmp_path, old, new, sentence):
    assert sentence in fault(tmp_path, old, new).splitlines()


def test_all_faults_of_all_files_are_told_together(tmp_path):
    row(tmp_path, ROW.replace('"1.0.0"', "1").replace("streams = true", "streams = 3"))
    row(tmp_path, ROW.replace("title =", "titel =").replace('"mine"', '"other"'), "other")
    with pytest.raises(SeamError) as caught:
        SeamTable.load(tmp_path)
    keys = [line.split(": ")[1] for line in str(caught.value).splitlines()]
    assert keys == ["streams", "install.version", "title", "titel"]


@pytest.mark.parametrize(("text", "line"), [("a = [\n\n\n", "line 4"), (ROW + "x\n", f"line {ROW.count(chr(10)) + 1}")])
def test_broken_toml_is_told_with_file_and_line(tmp_path, text, line):
    with pytest.raises(SeamError, match=rf"mine\.toml is not TOML: .*{line}"):
        read_seams(row(tmp_path, text))


def test_a_file_that_is_not_text_is_told(tmp_path):
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SeamError, match=r"mine\.toml is not UTF-8 text"):
        read_seams(tmp_path / "mine.toml")


VARIANT = """
[variants.messages]
dialect = "messages"
agent = { base_url = "{url}", env = { OTHER = "{key}" } }
"""


def test_a_variant_is_the_row_with_its_own_tables_laid_over_it(tmp_path):
    row(tmp_path, ROW + VARIANT)
    table = SeamTable.load(tmp_path)
    first, second = table["mine"], table["mine-messages"]
    assert (second.title, second.dialect, second.agent.base_url) == ("my agent (messages)", "messages", "{url}")
    assert second.agent.env == {"KEY": "{key}", "OTHER": "{key}"}
    assert (first.harness, second.harness, second.variant_of) == ("mine", "mine", "mine")
    assert second.install == first.install
    assert second.facts.digest != first.facts.digest


def test_a_row_without_a_shell_has_no_scenario_with_commands_and_one_that_takes_files_has_those_with_files(tmp_path):
    unlisted = ROW.replace('scenarios = ["edit_file"]\n', "")
    bundled = ScenarioTable.load()
    with_files = {name for name in bundled if bundled[name].needs == "edit"}
    with_commands = {name for name in bundled if has_commands(bundled[name])}
    row(tmp_path, unlisted + '\n[edit]\ntext = "{path}: {content}"\n')
    assert set(SeamTable.load(tmp_path)["mine"].scenarios) & (with_files | with_commands) == with_files
    row(tmp_path, unlisted + '\n[shell]\ntool = "bash"\n')
    assert {"edit_file", "explore"} <= set(SeamTable.load(tmp_path)["mine"].scenarios) <= set(bundled) - with_files


def test_what_comes_with_harbor_has_harbors_version_and_no_other(tmp_path):
    row(tmp_path, WITH_HARBOR)
    table = SeamTable.load(tmp_path)
    assert (table["mine"].outside, table["mine"].version) == (True, None)
    with pytest.raises(SeamError, match="installed already, in the version that it has"):
        table.get("mine@1.0.0")


def test_what_comes_with_harbor_has_no_command_of_its_own(tmp_path):
    row(tmp_path, WITH_HARBOR.replace('harbor = "mine"', 'command = "mine {instruction}"'))
    with pytest.raises(SeamError, match=r"agent\.harbor"):
        SeamTable.load(tmp_path)


@pytest.mark.parametrize(("key", "text"), [("shell.text", "Run: {commmand}"), ("finish.text", "Done: {command}"), ("edit.text", "{file}")])
def test_a_placeholder_that_a_text_of_the_row_cannot_have_is_refused(tmp_path, key, text):
    table, _, name = key.partition(".")
    row(tmp_path, f'{ROW}\n[{table}]\n{name} = "{text}"\n')
    with pytest.raises(SeamError, match=f"{key}: placeholder"):
        SeamTable.load(tmp_path)


def test_a_variant_is_asked_for_in_another_version_by_its_own_name(tmp_path):
    row(tmp_path, ROW + VARIANT)
    assert SeamTable.load(tmp_path).get("mine-messages@2.0.0").version == "2.0.0"


def test_a_fault_of_the_program_is_known_in_its_variants_too(tmp_path):
    deviation = (
        '[[deviations]]\nrequirement = "ATF-004"\nreason = "so it is"\nlink = "https://example.org"\nseen = "x"\n'
        'subject = "mine"\nversions = "==1.0.0"\nexpires = "2030-01-01"\n'
    )
    row(tmp_path, ROW + deviation + VARIANT)
    table = SeamTable.load(tmp_path)
    assert [table[name].deviations[0].subject for name in ("mine", "mine-messages")] == ["mine", "mine-messages"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (VARIANT.replace('"messages"\nagent', '"tar"\nagent'), 'variants.messages: dialect: "tar" found'),
        (VARIANT.replace("[variants.messages]", "[variants.Big]"), 'variants: "Big" found, a name'),
        (VARIANT + 'name = "x"\n', "variants.messages.name: found, but the table sets it"),
        ("[variants]\nx = 1\n", "variants.x: 1 found, a table expected"),
    ],
)
def test_a_faulty_variant_is_told(tmp_path, text, told):
    assert told in fault_of(tmp_path, ROW + text)


def test_a_row_that_calls_itself_a_variant_is_refused(tmp_path):
    assert "variant_of: found, but the table sets it" in fault_of(tmp_path, 'variant_of = "pi"\n' + ROW)


def test_a_scenario_is_either_applicable_or_not(tmp_path):
    assert "inapplicable.edit_file: found, but scenarios lists it too" in fault_of(tmp_path, 'inapplicable = { edit_file = "no" }\n' + ROW)


def test_a_row_is_either_fast_or_slow(tmp_path):
    assert "slow: found, but fast says the opposite" in fault_of(tmp_path, "fast = true\nslow = true\n" + ROW)


def test_which_scenarios_judge_a_row_and_its_tier_do_not_make_another_seam(tmp_path):
    plain = read_seams(row(tmp_path, ROW))[0].facts.digest
    assert read_seams(row(tmp_path, "slow = true\n" + ROW))[0].facts.digest == plain
    assert read_seams(row(tmp_path, 'fast = true\ninapplicable = { explore = "no" }\n' + ROW))[0].facts.digest == plain
    assert read_seams(row(tmp_path, ROW.replace('["edit_file"]', '["edit_file", "explore"]')))[0].facts.digest == plain


def test_every_bundled_row_is_judged_by_each_scenario_or_says_why_not():
    scenarios, table = ScenarioTable.load(), SeamTable.load()
    for seam in (table[name] for name in table):
        met = {name for name in scenarios if seam.meets(scenarios[name].needs) and (seam.shell or not has_commands(scenarios[name]))}
        assert met <= {*seam.scenarios, *seam.inapplicable}, seam.name


def test_what_a_bundled_row_is_known_to_break_is_required_of_it_in_scenarios_that_judge_it():
    catalogue, table = load_catalogue(), SeamTable.load()
    for seam in (table[name] for name in table):
        required = {requirement.id for requirement in catalogue.applicable(seam.facts) if requirement.binding}
        for known in seam.known_failures:
            assert known.requirement in required, (seam.name, known.requirement)


def test_a_known_failure_of_a_scenario_that_does_not_judge_the_row_is_a_fault(tmp_path):
    known = '[[known_failures]]\nrequirement = "PAR-001"\nscenarios = ["edit_file", "fly"]\nreason = "it loses one"\n'
    assert "known_failures: PAR-001 is said to fail in fly, which is no scenario of this row" in fault_of(tmp_path, ROW + known)


DEVIATION = """[[deviations]]
requirement = "ATF-004"
reason = "it loses one"
link = "https://example.com"
subject = "harbor"
versions = ">=0.26"
expires = "2027-03-01"
"""


def test_a_known_deviation_of_a_scenario_that_does_not_judge_the_row_is_a_fault(tmp_path):
    known = DEVIATION + 'scenarios = ["edit_file", "fly"]\n'
    assert "deviations: ATF-004 is said to fail in fly, which is no scenario of this row" in fault_of(tmp_path, ROW + known)


@pytest.mark.parametrize(("default", "told"), [("scenarios = []", 'scenarios = ["edit_file"]'), ("flaky = false", "flaky = true")])
def test_the_digest_tells_where_a_deviation_is_known_and_does_not_change_where_that_is_not_said(tmp_path, default, told):
    digests = [read_seams(row(tmp_path, f"{ROW}{DEVIATION}{said}\n"))[0].facts.digest for said in ("", default, told)]
    assert digests[0] == digests[1] != digests[2]


def test_what_a_row_is_known_to_break_makes_no_other_seam_and_stands_in_the_evidence(tmp_path):
    known = '[[known_failures]]\nrequirement = "PAR-001"\nscenarios = ["edit_file"]\nreason = "it loses one"\n'
    (plain,), (told,) = read_seams(row(tmp_path, ROW)), read_seams(row(tmp_path, ROW + known))
    assert told.facts.digest == plain.facts.digest
    assert [each.requirement for each in told.facts.known_failures] == ["PAR-001"]


def has_commands(scenario: Scenario) -> bool:
    return any(step.shell for step in scenario.steps)


def fault_of(folder: Path, text: str) -> str:
    with pytest.raises(SeamError) as caught:
        read_seams(row(folder, text))
    return str(caught.value)


EXCUSE = """
[[deviations]]
requirement = "PAR-001"
reason = "it loses one"
link = "https://example.org/1"
subject = "harbor"
versions = ">=0.26,<0.27"
expires = "2027-03-01"
"""


@pytest.mark.parametrize(
    ("right", "wrong", "sentence"),
    [
        ("PAR-001", "PAR-999", "deviations: PAR-999 found, a requirement expected"),
        (">=0.26,<0.27", "all of them", 'deviations: PAR-001: versions "all of them" found, a specifier such as'),
        ("2027-03-01", "never", 'deviations: PAR-001: expires "never" found, a day such as'),
        ("2027-03-01", "9999-99-99", 'deviations: PAR-001: expires "9999-99-99" found, a day such as'),
    ],
)
def test_a_deviation_that_would_excuse_nothing_or_for_ever_is_refused(tmp_path, right, wrong, sentence):
    assert sentence in fault_of(tmp_path, ROW + EXCUSE.replace(right, wrong))


def test_a_known_failure_of_what_nobody_requires_or_without_a_reason_is_refused(tmp_path):
    known = '[[known_failures]]\nrequirement = "PAR-999"\nreason = "it loses one"\n'
    assert "known_failures: PAR-999 found, a requirement expected" in fault_of(tmp_path, ROW + known)
    assert "PAR-001 found without a reason" in fault_of(tmp_path, ROW + known.replace("PAR-999", "PAR-001").replace("it loses one", " "))
