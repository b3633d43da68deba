"""What is put into a sandbox that mounts nothing, and what is said where it does not take it."""

import asyncio
import tarfile
from types import SimpleNamespace

import pytest

from pytest_harness.sandboxes.channel import SandboxError
from pytest_harness.sandboxes.equipping import COMMANDS, Equipment, equip


class Recorded:
    """A sandbox that remembers what was asked of it, and answers as it is told to."""

    def __init__(self, answers=()):
        self.answers = dict(answers)
        self.commands: list[tuple[str, str]] = []
        self.uploaded: list[dict[str, tuple[int, str]]] = []

    async def exec(self, command, cwd=None, user=None):
        self.commands.append((command.partition("\n")[0], user))
        code, said = next((answer for beginning, answer in self.answers.items() if command.startswith(beginning)), (0, ""))
        return SimpleNamespace(return_code=code, stdout=said, stderr="")

    async def upload_file(self, source, target):
        with tarfile.open(source) as archive:
            self.uploaded.append({member.name: (member.mode, archive.extractfile(member).read().decode()) for member in archive})


def test_commands_lie_in_every_path_and_files_at_home():
    sandbox = Recorded({"printf": (0, "/home/agent")})
    asyncio.run(equip(sandbox, Equipment(shims={"agent": "#!/bin/sh\n"}, files={"~/.agent/settings": "a", "/etc/agent": "b"})))
    expected = {
        f"{COMMANDS}/agent"[1:]: (0o755, "#!/bin/sh\n"),
        "home/agent/.agent/settings": (0o644, "a"),
        "etc/agent": (0o644, "b"),
    }
    assert sandbox.uploaded == [expected]
    assert {user for _, user in sandbox.commands} == {"root"}


def test_what_the_harness_needs_of_this_machine_and_is_not_put_in_is_named():
    sandbox = Recorded({"while read": (0, "/usr/bin/python3.12\n")})
    with pytest.raises(SandboxError, match=r"the harness needs /usr/bin/python3.12 in the sandbox, which is this machine's own"):
        asyncio.run(equip(sandbox, Equipment(leads_to=("/usr/bin/python3.12",))))


def test_a_sandbox_without_tar_is_told_with_what_it_said():
    sandbox = Recorded({"tar": (127, "tar: not found")})
    with pytest.raises(SandboxError, match=r"could not be put into the sandbox: 'tar .*' ended with 127: tar: not found"):
        asyncio.run(equip(sandbox, Equipment(shims={"agent": "#!/bin/sh\n"})))
