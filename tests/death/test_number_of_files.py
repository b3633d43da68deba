"""A sandbox has room for so many files and no more, however small they are: each takes memory of the machine."""

from __future__ import annotations

import pytest

from pytest_harness.sandboxes.bubblewrap import Sandbox
from pytest_harness.sandboxes.layout import FILE_BYTES, IN_MEMORY
from pytest_harness.sandboxes.running import Runner
from pytest_harness.seams.limits import MB, Limits

MOST = 16 * MB // FILE_BYTES


@pytest.mark.parametrize("folder", IN_MEMORY)
async def test_empty_files_have_an_end_and_the_room_for_them_is_there_before(folder):
    with Sandbox.start(limits=Limits(disk_mb=16)) as sandbox:
        runner = Runner(sandbox)
        script = f"mkdir {folder}/many; cd {folder}/many && touch {{1..{MOST}}}; ls | wc -l"
        finished = await runner.run(["/bin/bash", "-c", script])
        runner.close()
    assert b"No space left on device" in finished.stderr
    assert MOST // 2 < int(finished.stdout) < MOST


async def test_the_number_cannot_be_raised_inside():
    with Sandbox.start(limits=Limits(disk_mb=16)) as sandbox:
        runner = Runner(sandbox)
        finished = await runner.run(["/bin/bash", "-c", f"mount -o remount,nr_inodes={2 * MOST} /; df --output=itotal / | tail -1"])
        runner.close()
    assert b"permission denied" in finished.stderr.lower()
    assert int(finished.stdout) == MOST
