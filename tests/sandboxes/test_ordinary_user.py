"""The tests of isolation and life once more, as a user without any privilege."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# As root, in a mount namespace of its own: make Python passable if it lies below a closed home, then become the user.
BECOME = """
import os, sys
from pathlib import Path
from pytest_harness.sandboxes.keeper import MS_BIND, MS_PRIVATE, MS_REC, mount
uid, prefix = int(sys.argv[1]), Path(sys.base_prefix)
os.unshare(os.CLONE_NEWNS)
mount("none", "/", None, MS_REC | MS_PRIVATE)
closed = [folder for folder in prefix.parents if not folder.stat().st_mode & 1]
if closed:
    mount("none", "/mnt", "tmpfs", 0)
    Path("/mnt/python").mkdir()
    mount(str(prefix), "/mnt/python", None, MS_BIND | MS_REC)
    mount("none", str(closed[-1]), "tmpfs", 0, "mode=0755")
    prefix.mkdir(parents=True)
    mount("/mnt/python", str(prefix), None, MS_BIND | MS_REC)
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@pytest.mark.skipif(os.getuid() != 0, reason="this run is itself that of an ordinary user")
@pytest.mark.parametrize("module", ["test_isolation.py", "test_bubblewrap.py"])
def test_all_of_it_holds_for_an_ordinary_user(module):
    uid = 54321
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, uid, uid)
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", f"{folder}/tests", str(HERE / module)]
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
        told = subprocess.run(
            [sys.executable, "-c", BECOME, str(uid), *command],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            cwd=HERE.parents[1],
        )
    assert told.returncode == 0, told.stdout + told.stderr
