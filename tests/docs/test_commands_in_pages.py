"""Every command in the pages is run as it stands, or is marked with why it is not; and each of its options is one that there is."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from pytest_harness import cli

_spec = importlib.util.spec_from_file_location("pages", Path(__file__).with_name("pages.py"))
pages = importlib.util.module_from_spec(_spec)
sys.modules["pages"] = pages
_spec.loader.exec_module(pages)

OURS = typer.main.get_command(cli.app)
LANGUAGES = {"sh", "text", "toml", "python", "json", "yaml", "html", "xml", "dockerfile"}
OPTION = re.compile(r"--[a-z][a-z-]+")
RUN = {str(command): command for command in pages.ALL if command.how == "run"}


def options(words):
    """The options among the words of a command; what stands within another word is that word's own affair."""
    return {word.partition("=")[0] for word in words if OPTION.match(word)}


@pytest.fixture(scope="module")
def options_of_pytest():
    """All options that pytest has in a run of ours, as its own help tells them."""
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--proxy=bundled", "--help"], capture_output=True, text=True, check=True
    )
    return set(OPTION.findall(told.stdout))


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.relative_to(pages.ROOT).as_posix())
def test_every_block_says_what_it_is_and_no_command_hides_in_another(page):
    for token, _ in pages.blocks(page):
        where = f"{page.name}, line {token.map[0] + 1}"
        assert token.info.strip() in LANGUAGES, f"{where}: a block of {token.info or 'nothing'}; commands are sh, what is printed is text"
        if token.info.strip() == "text":
            hidden = [line for line in token.content.splitlines() if line.startswith(tuple(f"{name} " for name in pages.PROGRAMS))]
            assert not hidden, f"{where}: {hidden[0]} is a command; mark the block sh"


def test_the_pages_hold_commands_of_each_kind():
    assert {command.how for command in pages.ALL} == {"run", "slow", "not run"}
    assert len(RUN) >= 10


@pytest.mark.parametrize("command", RUN.values(), ids=RUN)
def test_a_command_runs_as_it_stands(command, scratch, run_pytest, monkeypatch, capsys):
    if command.program == "pytest":
        done = run_pytest(scratch, *command.words[1:])
        code, said = done.returncode, done.stdout + done.stderr
    else:
        assert command.program == "harness-conformance", f"{command.program} is no program of ours; mark its block as not run"
        monkeypatch.chdir(scratch)
        monkeypatch.setattr(sys, "argv", list(command.words))
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        said = "".join(capsys.readouterr())
    assert code == command.code, f"{command.page}, line {command.line}:\n{said}"


@pytest.mark.parametrize("command", {str(each): each for each in pages.ALL}.values(), ids=str)
def test_what_a_command_names_is_there(command, options_of_pytest):
    where = f"{command.page}, line {command.line}"
    match command.program, command.words[1:]:
        case "pytest", words:
            unknown = options(words) - options_of_pytest
            assert not unknown, f"{where}: pytest has no {unknown}"
        case "harness-conformance", (name, *words):
            OURS.commands[name].make_context(name, list(words))
        case "make", targets:
            makefile = (pages.ROOT / "Makefile").read_text()
            assert all(re.search(rf"(?m)^{target}:", makefile) for target in targets), where
        case "python", ("-m", module, *_):
            assert importlib.util.find_spec(module) is not None, where
        case "python", (script, *_):
            assert (pages.ROOT / script).is_file(), where
        case _:
            assert command.how == "not run", f"{where}: nobody knows how {command.program} is tested; mark its block as not run"


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.relative_to(pages.ROOT).as_posix())
def test_options_in_the_text_are_ones_that_there_are(page, options_of_pytest):
    for text in pages.inline(page):
        program, _, rest = text.partition(" ")
        found = options(rest.split())
        if program == "pytest":
            assert found <= options_of_pytest, f"{page.name}: `{text}`"
        elif program == "harness-conformance" and (name := rest.partition(" ")[0]).islower():
            if name.startswith("-"):
                continue
            assert name in OURS.commands, f"{page.name}: `{text}`"
            known = {option for parameter in OURS.commands[name].params for option in parameter.opts}
            assert found <= known, f"{page.name}: `{text}` has no {found - known}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<!-- commands: later -->\n\n```sh\nmake demo\n```\n", "is no mark"),
        ("<!-- commands: not run -->\n\n```sh\nmake demo\n```\n", "is no mark"),
        ("<!-- commands: not run, so -->\n\n```sh\nmake demo\n```\n", "is no mark"),
    ],
)
def test_a_mark_without_a_reason_is_refused(monkeypatch, tmp_path, text, says):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(pages.PageError, match=says):
        pages.commands(tmp_path / "page.md")


def test_a_command_over_several_lines_is_one_and_a_comment_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text("```sh\n# nothing\npytest --harness=pi \\\n    -n 2   # over two\n\nmake demo\n```\n")
    assert [str(command) for command in pages.commands(tmp_path / "page.md")] == ["pytest --harness=pi -n 2", "make demo"]


def test_the_toml_in_the_pages_is_toml():
    found = [token.content for page in pages.PAGES for token, _ in pages.blocks(page) if token.info.strip() == "toml"]
    assert found
    for text in found:
        assert tomllib.loads(text)


def test_the_python_in_the_pages_runs(scratch):
    """Each block alone; of a test it is seen that it is defined."""
    found = [(page.name, token.content) for page in pages.PAGES for token, _ in pages.blocks(page) if token.info.strip() == "python"]
    assert found
    for name, text in found:
        done = subprocess.run([sys.executable, "-c", text], cwd=scratch, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"
