"""The keeper of one sandbox: a small process on the host that starts bubblewrap and puts every command into its namespaces.

Run as a script (``python -I -S keeper.py CHANNEL_FD``), standard library only, one thread. It promises:

* Nothing that runs inside holds a capability over the sandbox's mounts. bubblewrap makes two user namespaces, one in the other: the
  outer one owns the mounts, the network and the processes, the commands live in the inner one, which owns nothing and in which no
  further one can be made. Only this process is ever in the outer one, and it executes no program there: the fork that becomes a
  command gives up the outer namespace before it executes its first byte from the sandbox.
* Uid 0 is left first: when the host's user is root everything happens under ``drop_to``, an unprivileged uid. Folders to be mounted
  that this uid could not reach (below a closed home, say) are bound to a passable place first, in a mount namespace of this process.
* No command makes more than ``processes`` of them, all commands together: the kernel counts those of each user namespace apart. No file
  that one writes has more than ``file_size`` bytes. In each folder of ``in_memory`` there are no more than ``files`` of them.
* Where the machine runs out of memory the kernel ends something of the sandbox first, unless that something asks otherwise.
* The sandbox ends with the keeper, and the keeper ends when the other end of its channel is closed, however that came about. It does
  not matter which thread of the other process started it (a parent-death signal would follow that thread).

The channel is a SOCK_SEQPACKET socket. Each request is one packet with its file descriptors:

=========  ===============================================  ================================================================
packet     descriptors                                      answer
=========  ===============================================  ================================================================
start      memfd with a JSON ``{folder, name, ...}``      ``ok`` or ``failed:REASON``
exec       memfd with a JSON ``{argv, env, cwd}``, control  on *control*: ``exit:CODE`` or ``died``; the process group is killed
           socket, stdin, stdout, stderr                    when the other end of *control* is shut down
listen:N   none                                             ``ok`` with a listening TCP socket on 127.0.0.1:N, or ``failed:…``
datagram:N none                                             ``ok`` with a UDP socket on 127.0.0.1:N, or ``failed:…``
memory     none                                             the bytes that all processes inside have together, or ``unknown``
=========  ===============================================  ================================================================
"""

# ruff: noqa: PTH102, PTH112, PTH116, PTH123, PTH208
# No pathlib here: importing it would take a third of this process's start.
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import selectors
import signal
import socket
import stat
import subprocess
import sys

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 24, 38
NS_GET_PARENT = 0xB702
# The names that a mount point for staging may have: all in the hierarchy standard, none needed by a running bubblewrap.
STAGES = ("/mnt", "/media", "/srv", "/opt", "/boot", "/home")
# What an engine's container keeps too: CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW SYS_CHROOT
# MKNOD AUDIT_WRITE SETFCAP. All of them only over the inner user namespace.
KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31})
HOLDER = (
    "trap '' HUP INT QUIT TERM USR1 USR2 PIPE ALRM; printf r >&{ready}; exec {ready}>&- </dev/null >/dev/null 2>&1; "
    "while read -r _ <&{life}; do :; done"
)

libc = ctypes.CDLL(None, use_errno=True)


class StartError(Exception):
    """The sandbox did not start. The message says why."""


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library that answers 0 or sets errno."""
    if getattr(libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    call("mount", encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])


def stage(sources: list[str]) -> dict[str, str]:
    """Bind each source to a place that every user can pass, seen by this process and its children only. Needs root."""
    os.unshare(os.CLONE_NEWNS)
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    real = [os.path.realpath(source) for source in sources]
    free = [
        folder for folder in STAGES if os.path.isdir(folder) and not any(path == folder or path.startswith(f"{folder}/") for path in real)
    ]
    if not free:
        raise StartError(f"no free mount point among {', '.join(STAGES)} to stage the mounts at; mount from fewer places")
    mount("tmpfs", free[0], "tmpfs", MS_NOSUID | MS_NODEV, "mode=0711")
    staged = {}
    for number, (source, path) in enumerate(zip(sources, real, strict=True)):
        target = f"{free[0]}/{number}"
        if stat.S_ISDIR(os.stat(path).st_mode):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(path, target, None, MS_BIND | MS_REC)
        staged[source] = target
    return staged


def leave_root(drop_to: int, sources: list[str]) -> dict[str, str]:
    """Become ``drop_to``. Returns where each source can be reached from now on."""
    try:
        reachable = stage(sources)
    except PermissionError:  # root of a container without CAP_SYS_ADMIN: fine as long as everything is passable as it is
        reachable = {source: source for source in sources}
    os.setgroups([])
    os.setresgid(drop_to, drop_to, drop_to)
    os.setresuid(drop_to, drop_to, drop_to)
    for source, path in reachable.items():
        if not os.access(path, os.R_OK):
            raise StartError(
                f"{source} cannot be read by uid {drop_to}, under which the sandbox of root runs; allow others to read and pass it"
            )
    return reachable


class Keeper:
    """Holds one sandbox and serves its channel until the channel is closed."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.selector = selectors.DefaultSelector()
        self.children: dict[int, tuple[int, socket.socket]] = {}  # pidfd -> pid, control
        self.first = 0  # pid of the sandbox's process 1, as the host sees it
        self.namespaces: dict[str, int] = {}
        self.limits: list[tuple[int, int]] = []  # which resource, and how much of it a command may have

    # ---- start

    def start(self, spec: dict[str, object]) -> None:
        """Start bubblewrap, wait until its mounts are there, and join what a later command is to be born into."""
        arguments = spec["arguments"]
        assert isinstance(arguments, list)
        self.limit(spec)
        folder, name, drop_to = str(spec["folder"]), str(spec["name"]), spec["drop_to"]
        sources = list(dict.fromkeys([folder, *(item["source"] for item in arguments if isinstance(item, dict) and "source" in item)]))
        reachable = leave_root(drop_to, sources) if isinstance(drop_to, int) else {source: source for source in sources}
        info_read, info_write = os.pipe()
        ready_read, ready_write = os.pipe()
        life_read, life_write = os.pipe()
        errors = os.memfd_create("errors")
        passed = [info_write, ready_write, life_read]
        command = [f"{reachable[folder]}/{name}", "--info-fd", str(info_write)]
        for item in arguments:
            if isinstance(item, str):
                command.append(item)
            elif "source" in item:
                command.append(reachable[item["source"]])
            else:
                passed.append(memory_file(item["data"].encode()))
                command.append(str(passed[-1]))
        command += ["--", "/bin/bash", "-c", HOLDER.format(ready=ready_write, life=life_read)]
        try:
            self.bwrap = subprocess.Popen(command, pass_fds=passed, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, cwd="/")
        except OSError as error:
            raise StartError(f"{folder}/{name} cannot be executed: {error.strerror}") from None
        for number in passed:
            os.close(number)
        self.life = life_write
        with open(info_read, "rb") as info, open(ready_read, "rb") as ready:
            told, up = info.read(), ready.read(1)
        if up != b"r":
            self.bwrap.wait()
            os.lseek(errors, 0, os.SEEK_SET)
            raise StartError(os.read(errors, 4096).decode(errors="replace").strip() or f"bwrap ended with {self.bwrap.returncode}")
        os.close(errors)
        self.join(int(json.loads(told)["child-pid"]))
        in_memory = spec["in_memory"]
        assert isinstance(in_memory, list)
        self.count_files(in_memory, str(spec["files"]))

    def limit(self, spec: dict[str, object]) -> None:
        """Remember what each command may have, no more than this process may have itself."""
        for which, most in ((resource.RLIMIT_NPROC, spec["processes"]), (resource.RLIMIT_FSIZE, spec["file_size"])):
            if isinstance(most, int):
                self.limits.append((which, min(number for number in (most, *resource.getrlimit(which)) if number >= 0)))

    def join(self, first: int) -> None:
        """Open the sandbox's namespaces and enter those that do not change what this process can read or execute."""
        self.first = first
        inner = os.open(f"/proc/{first}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        outer = fcntl.ioctl(inner, NS_GET_PARENT)
        opened = {kind: os.open(f"/proc/{first}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("mnt", "pid", "net", "ipc", "uts")}
        os.setns(outer, os.CLONE_NEWUSER)
        for kind, flag in (("pid", os.CLONE_NEWPID), ("net", os.CLONE_NEWNET), ("ipc", os.CLONE_NEWIPC), ("uts", os.CLONE_NEWUTS)):
            os.setns(opened[kind], flag)
            os.close(opened[kind])
        os.close(outer)
        self.namespaces = {"mnt": opened["mnt"], "user": inner}
        # Commands own no network, so without this the sandbox's root could not serve on port 80. Read-only in some containers.
        with contextlib.suppress(OSError), open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w") as limit:
            limit.write("0")

    def count_files(self, folders: list[str], most: str) -> None:
        """Limit how many files each of these file systems in memory holds. Where the kernel does not let us, there is no limit."""
        pid = os.fork()
        if pid == 0:
            try:
                os.setns(self.namespaces["mnt"], os.CLONE_NEWNS)
                for folder in folders:
                    with contextlib.suppress(OSError):
                        mount("tmpfs", folder, None, MS_REMOUNT | MS_NOSUID | MS_NODEV, f"nr_inodes={most}")
            finally:
                os._exit(0)
        os.waitpid(pid, 0)

    # ---- commands

    def spawn(self, request: dict[str, object], control: socket.socket, streams: list[int]) -> None:
        """Fork one command into the sandbox."""
        try:
            pid = os.fork()
        except OSError:  # ENOMEM: process 1 is gone, its namespace takes no more processes
            control.send(b"died")
            control.close()
            return
        if pid == 0:
            self.become(request, streams)
        pidfd = os.pidfd_open(pid)
        self.children[pidfd] = (pid, control)
        self.selector.register(pidfd, selectors.EVENT_READ, self.ended)
        self.selector.register(control, selectors.EVENT_READ, self.abandoned)

    def become(self, request: dict[str, object], streams: list[int]) -> None:
        """In the fork: enter the sandbox, give up every power over it, execute. Does not return."""
        try:
            libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # nothing inside can look into this process before it has executed
            for number, stream in enumerate(streams):
                os.dup2(stream, number, inheritable=True)
            os.setsid()
            self.enter()
            os.closerange(3, 1 << 20)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.umask(0o022)
            for which, most in self.limits:
                resource.setrlimit(which, (most, most))
            where = str(request["cwd"])
            os.chdir(where)
            argv, env = request["argv"], request["env"]
            assert isinstance(argv, list)
            assert isinstance(env, dict)
            where = argv[0]
            os.execve(where, argv, env)  # noqa: S606
        except OSError as error:
            os.write(2, f"sandbox: {where}: {error.strerror}\n".encode())
        finally:
            os._exit(126)

    def enter(self) -> None:
        """In the fork: go where the commands live, with no power over it."""
        os.setns(self.namespaces["mnt"], os.CLONE_NEWNS)
        os.setns(self.namespaces["user"], os.CLONE_NEWUSER)
        for capability in range(64):
            if capability not in KEPT_CAPABILITIES:
                libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    def ended(self, pidfd: int) -> None:
        """A command has ended: say how."""
        pid, control = self.children.pop(pidfd)
        self.selector.unregister(pidfd)
        os.close(pidfd)
        with contextlib.suppress(KeyError):
            self.selector.unregister(control)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        message = b"exit:%d" % (code if code >= 0 else 128 - code)
        if code == -signal.SIGKILL and not self.alive():
            message = b"died"
        with contextlib.suppress(OSError):
            control.send(message)
        control.close()

    def abandoned(self, control: socket.socket) -> None:
        """Nobody wants this command any more: kill its process group; its end is reported as ever."""
        self.selector.unregister(control)
        for pid, other in self.children.values():
            if other is control:
                for kill in (os.killpg, os.kill):  # the group exists only after the fork's setsid
                    with contextlib.suppress(OSError):
                        kill(pid, signal.SIGKILL)

    def alive(self) -> bool:
        """Whether the sandbox still takes processes: the kernel refuses a fork into it from the moment process 1 ends."""
        try:
            pid = os.fork()
        except OSError:
            return False
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return True

    def memory(self) -> bytes:
        """What all processes of the sandbox take of the memory, each its part of what several share."""
        try:
            inside = os.stat(f"/proc/{self.first}/ns/pid").st_ino
        except OSError:
            return b"unknown"
        total = 0
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):  # it has ended, or is none of ours
                if name.isdigit() and os.stat(f"/proc/{name}/ns/pid").st_ino == inside:
                    with open(f"/proc/{name}/smaps_rollup") as sums:
                        total += sum(int(line.split()[1]) for line in sums if line.startswith("Pss:"))
        return b"%d" % (total * 1024)

    # ---- channel

    def serve(self) -> None:
        """Answer requests until the channel is closed, then leave nothing behind."""
        self.selector.register(self.channel, selectors.EVENT_READ, self.request)
        try:
            while True:
                for key, _ in self.selector.select()[:1]:  # one at a time: serving it may make the next one's descriptor void
                    key.data(key.fileobj)
        except EOFError:
            pass
        finally:
            self.end()

    def end(self) -> None:
        """Leave nothing behind."""
        if self.first:
            with contextlib.suppress(OSError):
                os.kill(self.first, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)

    def request(self, channel: socket.socket) -> None:
        """Serve one packet."""
        packet, numbers, _, _ = socket.recv_fds(channel, 256, 8, socket.MSG_CMSG_CLOEXEC)
        if not packet:
            raise EOFError
        verb, _, operand = packet.decode().partition(":")
        try:
            if verb == "exec":
                control = socket.socket(fileno=numbers[1])
                self.spawn(read_json(numbers[0]), control, numbers[2:])
                for number in (numbers[0], *numbers[2:]):
                    os.close(number)
            elif verb == "listen":
                with socket.create_server(("127.0.0.1", int(operand)), backlog=1024) as server:
                    socket.send_fds(channel, [b"ok"], [server.fileno()])
            elif verb == "datagram":
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
                    bound.bind(("127.0.0.1", int(operand)))
                    socket.send_fds(channel, [b"ok"], [bound.fileno()])
            elif verb == "memory":
                channel.send(self.memory())
            else:
                self.start(read_json(numbers[0]))
                channel.send(b"ok")
        except (StartError, OSError) as error:
            channel.send(f"failed:{error}".encode()[:8192])


def memory_file(content: bytes) -> int:
    """A descriptor, at its start, of an anonymous file with this content."""
    number = os.memfd_create("data")
    with open(number, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(number, 0, os.SEEK_SET)
    return number


def read_json(number: int) -> dict[str, object]:
    """The JSON object in a file, read from its start."""
    with open(number, "rb", closefd=False) as file:
        file.seek(0)
        content: dict[str, object] = json.load(file)
    return content


def be_the_first_to_go() -> None:
    """When memory runs out, this process and all that it starts are ended before anything else, unless it asks otherwise."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


if __name__ == "__main__":
    be_the_first_to_go()
    Keeper(socket.socket(fileno=int(sys.argv[1]))).serve()
