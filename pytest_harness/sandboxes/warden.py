"""The keeper inside a container: process 1, which puts every command into the container that it runs in.

Run as a script (``python3 -I -S warden.py SOCKET``), standard library only, beside ``keeper.py``, whose channel it serves; with any Python
from 3.10 on. It promises:

* It connects to the socket and is nobody's server: once it has, the socket may go, and nothing inside can reach the host by it.
* No command can end it (it is process 1), look into it or trace it.
* The container ends with it, and it ends when the other end of its channel is closed, however that came about.
* What commands leave behind is buried.

Its ``start`` packet has a JSON ``{contents, file_size}``: path -> [mode, text] of files to write, and how many bytes one may have.
"""

# ruff: noqa: PTH100, PTH101, PTH103, PTH120, PTH123
import contextlib
import os
import signal
import socket
import sys
from selectors import EVENT_READ
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_harness.sandboxes.keeper import PR_SET_DUMPABLE, Keeper, be_the_first_to_go, libc
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from keeper import PR_SET_DUMPABLE, Keeper, be_the_first_to_go, libc

# Where the kernel counts what it has ended, of the two kinds of control groups. Only the container's own are mounted in it.
EVENTS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")


class Warden(Keeper):
    """Serves its channel inside a container until the channel is closed."""

    def start(self, spec: dict[str, object]) -> None:
        """Write the files, and begin to bury the dead."""
        self.limit({"processes": None, **spec})
        self.first = os.getpid()
        contents = spec["contents"]
        assert isinstance(contents, dict)
        for path, (mode, text) in contents.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, mode)
        told, tell = socket.socketpair()
        for end in (told, tell):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(tell.detach(), warn_on_full_buffer=False)
        self.selector.register(told, EVENT_READ, self.bury)

    def bury(self, told: socket.socket) -> None:
        """Reap the orphans; how a command ended is for ``ended`` to ask."""
        with contextlib.suppress(BlockingIOError):
            told.recv(4096)
        ours = {pid for pid, _ in self.children.values()}
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
            for pid in set(map(int, children.read().split())) - ours:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def enter(self) -> None:
        """A command lives where this process does, and is ended before it."""
        be_the_first_to_go()

    def memory(self) -> bytes:
        """As ever; and more than there is, once the kernel has ended something because of the container's own limit."""
        for place in EVENTS:
            with contextlib.suppress(OSError), open(place, encoding="ascii") as events:
                if any(name == "oom_kill" and count != "0" for name, count in map(str.split, events)):
                    return b"%d" % sys.maxsize
        return super().memory()

    def alive(self) -> bool:
        """Without this process there is no container."""
        return True

    def end(self) -> None:
        """The kernel ends everything else with process 1."""
        os._exit(0)


if __name__ == "__main__":
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        channel.connect(sys.argv[1])
        Warden(channel).serve()
