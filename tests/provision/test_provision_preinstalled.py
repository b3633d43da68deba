"""One's own harness: nothing is installed, its folder is taken as it is."""

import subprocess

import pytest

from pytest_harness.provision import ProvisionError, provision
from pytest_harness.seams import Seam, SeamError, read_seams

ROW = """\
name = "mine"
title = "my agent"
homepage = "https://example.org"
dialect = "chat"
streams = true
scenarios = ["edit_file"]
[install]
kind = "preinstalled"
path = "agent"
version = "0.3"
commands = { mine = "bin/my agent" }
[agent]
command = "mine {instruction}"
"""


@pytest.fixture
def folder(tmp_path):
    program = tmp_path / "agent" / "bin" / "my agent"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\ncase "$1" in --version) echo "my agent, version 0.4.1rc1 (stable)";; *) echo "$@";; esac\n')
    program.chmod(0o755)
    return tmp_path


def seam(folder, old="", new="") -> Seam:
    assert old in ROW
    path = folder / "mine.toml"
    path.write_text(ROW.replace(old, new) if old else ROW)
    return read_seams(path)[0]


def test_a_path_relative_to_the_row_is_mounted_at_its_own_place_and_run_by_its_shim(folder):
    installed = provision(seam(folder))
    assert [mount.target for mount in installed.mounts] == [str(folder / "agent")]
    assert (installed.asked, installed.version) == ("0.3", "0.3")
    shim = folder / "shim"
    shim.write_text(installed.shims["mine"])
    shim.chmod(0o755)
    assert subprocess.run([shim, "a b", "c"], capture_output=True, text=True, check=True).stdout == "a b c\n"


def test_further_folders_are_mounted_too(folder):
    installed = provision(seam(folder, 'version = "0.3"', 'version = "0.3"\nmounts = ["/opt/python"]'))
    assert [mount.target for mount in installed.mounts] == [str(folder / "agent"), "/opt/python"]


def test_a_command_tells_the_version(folder):
    installed = provision(seam(folder, 'version = "0.3"', 'version_command = "mine --version"'))
    assert (installed.asked, installed.version) == (None, "0.4.1rc1")


def test_the_digest_is_that_of_the_files(folder):
    first = provision(seam(folder)).digest
    assert provision(seam(folder)).digest == first
    (folder / "agent" / "more").write_text("x")
    assert provision(seam(folder)).digest != first


@pytest.mark.parametrize("left", [".harness/evidence/manifest.json", ".pytest_cache/lastfailed", "bin/__pycache__/agent.pyc", ".git/index"])
def test_what_a_run_leaves_in_the_folder_makes_no_other_build_of_the_harness(folder, left):
    first = provision(seam(folder)).digest
    path = folder / "agent" / left
    path.parent.mkdir(parents=True)
    path.write_text("x")
    assert provision(seam(folder)).digest == first


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            'path = "agent"',
            'path = "agnet"',
            r"^install\.path: there is no folder .*/agnet; correct the seam's row or ",
        ),
        ('"bin/my agent"', '"bin/none"', r"^install\.commands\.mine: there is no file .*/bin/none; correct the seam's row$"),
        ('version = "0.3"', 'version_command = "yours -v"', r"^install\.version_command: yours is none of install\.commands \(mine\)$"),
        ('version = "0.3"', 'version_command = "mine hello"', r"printed 'hello', a version number was expected$"),
    ],
)
def test_what_is_wrong_with_the_row_is_told_in_one_sentence(folder, old, new, sentence):
    with pytest.raises(ProvisionError, match=sentence):
        provision(seam(folder, old, new))


def test_a_row_without_a_way_to_know_the_version_does_not_load(folder):
    with pytest.raises(SeamError, match="install: neither of version and version_command found, exactly one expected"):
        seam(folder, 'version = "0.3"\n', "")
