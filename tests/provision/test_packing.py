"""A harness as an archive: what the other sandboxes mount, at the same paths, and made once."""

import tarfile

import pytest

from pytest_harness.provision import Installed
from pytest_harness.provision.packing import pack, packed
from pytest_harness.sandboxes.layout import Mount


@pytest.fixture
def installed(tmp_path):
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "agent").write_text("#!/bin/sh\n")
    (tree / "bin" / "agent").chmod(0o755)
    (tree / "bin" / "python").symlink_to("/usr/bin/env")
    (tree / "bin" / "near").symlink_to("agent")
    (tree / "bin" / "dangling").symlink_to("/there/is/no/such/file")
    return Installed("agent", "1.0", "1.0", "0" * 64, (Mount(tree, "/opt/agent"),), {"agent": "#!/bin/sh\n"})


def test_everything_lies_at_the_place_where_it_is_mounted_elsewhere_and_is_roots(installed, tmp_path):
    pack(installed.mounts, tmp_path / "archive")
    with tarfile.open(tmp_path / "archive") as archive:
        members = {member.name: member for member in archive}
    assert set(members) == {"opt/agent", "opt/agent/bin", *(f"opt/agent/bin/{name}" for name in ("agent", "python", "near", "dangling"))}
    assert members["opt/agent/bin/agent"].mode == 0o755
    assert {(member.uid, member.gid, member.uname) for member in members.values()} == {(0, 0, "root")}


def test_where_its_absolute_links_lead_is_told_unless_they_lead_nowhere_here_too(installed, tmp_path):
    assert pack(installed.mounts, tmp_path / "archive") == {"/usr/bin/env"}


def test_an_archive_is_made_once(installed, tmp_path):
    said: list[str] = []
    first = packed(installed, "agent", tmp_path / "cache", said.append)
    again = packed(installed, "agent", tmp_path / "cache", said.append)
    assert first == again
    assert first.archive.is_file()
    assert first.leads_to == ("/usr/bin/env",)
    assert [line for line in said if line.startswith("installing")] == ["installing agent 1.0 as an archive"]


def test_a_harness_of_other_bytes_has_another_archive(installed, tmp_path):
    other = Installed("agent", "1.0", "1.0", "1" * 64, installed.mounts, {})
    assert packed(installed, "agent", tmp_path / "cache").archive != packed(other, "agent", tmp_path / "cache").archive


def test_a_harness_without_files_needs_none(tmp_path):
    assert packed(Installed("part-of-harbor", None, "1", "0" * 64, (), {}), "part-of-harbor", tmp_path / "cache") is None
