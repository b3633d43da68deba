"""The command: rows that load, and one sentence for what cannot be."""

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pytest_harness.cli import app, main
from pytest_harness.discovery.command import Narrator
from pytest_harness.discovery.search import Told
from pytest_harness.seams import SeamTable


@pytest.fixture
def refused(monkeypatch, capsys):
    """What ``new-seam`` with these arguments says on stderr when it refuses them."""

    def run(*arguments: object) -> str:
        monkeypatch.setattr("sys.argv", ["harness-conformance", "new-seam", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err
        assert ended.value.code == 4
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        return said.removeprefix("error: ").strip()

    return run


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "mine" / "bin" / "mine"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\necho mine 2.0.1\n")
    path.chmod(0o755)
    return path


def test_a_bar_is_shown_on_a_terminal_and_a_line_for_each_try_everywhere():
    for terminal in (True, False):
        said = io.StringIO()
        with Narrator(Console(file=said, force_terminal=terminal, width=100)) as tell:
            tell(Told(1, 3, "mine exec: nothing came"))
        assert "try 1: mine exec: nothing came" in said.getvalue()
        assert ("1/3" in said.getvalue()) is terminal


def test_a_name_alone_gives_a_row_to_be_filled_in(tmp_path):
    done = CliRunner().invoke(app, ["new-seam", "my-agent", "--into", str(tmp_path)])
    assert done.exit_code == 0
    assert "fill it in, then run: pytest --harness=my-agent" in done.stdout
    seam = SeamTable.load(tmp_path)["my-agent"]
    assert (seam.agent.command, seam.shell.tool, seam.trajectory) == ("my-agent {instruction}", "bash", "none")


def test_a_program_of_this_machine_is_told_by_its_file(tmp_path, program):
    done = CliRunner().invoke(app, ["new-seam", "mine", "--command", str(program), "--into", str(tmp_path / "seams")])
    assert done.exit_code == 0, done.output
    seam = SeamTable.load(tmp_path / "seams")["mine"]
    assert (seam.install.path, seam.install.commands) == (str(tmp_path / "mine"), {"mine": "bin/mine"})
    assert seam.install.version_command == "mine --version"


def test_a_command_line_is_kept_with_the_name_that_the_sandbox_knows(tmp_path, program):
    line = f"{program} go --fast {{instruction}}"
    assert CliRunner().invoke(app, ["new-seam", "mine", "--command", line, "--into", str(tmp_path / "seams")]).exit_code == 0
    assert SeamTable.load(tmp_path / "seams")["mine"].agent.command == "mine go --fast {instruction}"


def test_a_program_that_says_no_version_is_written_down_so(tmp_path, program):
    program.write_text("#!/bin/sh\necho hello\n")
    assert CliRunner().invoke(app, ["new-seam", "mine", "--command", str(program), "--into", str(tmp_path / "seams")]).exit_code == 0
    assert "mine --version says no version" in (tmp_path / "seams" / "mine.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["Mine"], "'Mine' cannot be the name of a seam"),
        (["mine", "--npm", "a", "--pypi", "b"], "--npm and --pypi found"),
        (["mine", "--npm", " "], "--npm is empty"),
        (["mine", "--npm", "a@"], "--npm a@ ends in @"),
        (["mine", "--discover"], "--discover runs a harness: name it with"),
        (["mine", "--command", "/nowhere/at-all"], "there is no file /nowhere/at-all"),
        (["mine", "--command", "/bin/sh"], "does not lie in a folder of the harness's own"),
        (["mine", "--command", "'a"], "quote it as a shell wants it"),
        (["mine", "--command", "a {instruction} b"], "{instruction} must be its end"),
        (["mine", "--command", "a", "--tries", "0"], "--tries and --limit must be above 0"),
        (["mine", "--command", "a", "--limit", "0"], "--tries and --limit must be above 0"),
        (["mine", "--command", "a", "--limit", "nan"], "--tries and --limit must be above 0"),
        (["mine", "--command", "a", "--limit", "inf"], "--tries and --limit must be above 0"),
    ],
)
def test_what_cannot_be_is_one_sentence(refused, tmp_path, arguments, sentence):
    assert sentence in refused(*arguments, "--into", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_for_the_row_is_not_the_current_one(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "an empty path names no folder" in refused("mine", "--into", "")
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_is_there_is_not_overwritten(refused, tmp_path):
    (tmp_path / "mine.toml").write_text("kept")
    assert "is there already" in refused("mine", "--into", tmp_path)
    assert (tmp_path / "mine.toml").read_text() == "kept"


def test_a_folder_that_cannot_be_written_is_one_sentence(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused("mine", "--into", tmp_path / "file")


def test_the_adapter_of_harbor_is_named_where_there_is_one(tmp_path, program):
    CliRunner().invoke(app, ["new-seam", "pi", "--command", str(program), "--into", str(tmp_path / "seams")])
    assert 'harbor = "pi"' in (tmp_path / "seams" / "pi.toml").read_text()
    assert json.dumps("pi") in (tmp_path / "seams" / "pi.toml").read_text()
