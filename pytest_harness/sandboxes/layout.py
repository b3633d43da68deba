"""What a sandbox looks like from the inside, as arguments for bubblewrap.

The host's programs and libraries (``/usr``) are there read-only, with an empty ``/usr/local``. Of ``/etc`` only what programs need to run:
no account, password, key, or package registry of the host, and no time zone, as a container has none. Everything else is empty and in
memory, gone with the sandbox: ``/root`` (the home of its only user), ``/tmp``, ``/var``, ``/run``, ``/opt``, and whatever is made in
``/``. ``/bin``, ``/lib`` … are mount points, not links, so that nothing inside can put other programs or another loader there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

HOME = "/root"
HOSTNAME = "sandbox"
OURS = "/opt/harness-conformance"
"""Where a sandbox keeps what is not the task's: the same path on every machine, for a harness may tell it to the model."""

SHIMS = f"{OURS}/bin"
LOGS = "/logs/agent"
"""Where Harbor wants a harness's logs. Apart from the rest: a harness that fills it leaves the verifier room for its verdict."""

IN_MEMORY = ("/", "/usr/local", "/dev/shm", LOGS)  # noqa: S108 - the sandbox's own
"""The file systems in memory in which commands can write."""
FILE_BYTES = 8192
"""What the smallest file counts of the room: it takes memory even if it is empty."""

PATH = f"{SHIMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# One argument of bubblewrap: a word, a host path (made reachable by the keeper), or the content of a file (given as a descriptor).
Argument = str | dict[str, str]

_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    *(
        "alternatives",
        "ssl/certs",
        "ssl/openssl.cnf",
        "ca-certificates",
        "ca-certificates.conf",
        "pki",
        "crypto-policies",
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
    ),
    *("os-release", "debian_version", "alpine-release", "redhat-release", "profile", "profile.d", "bash.bashrc"),
    *("bashrc", "inputrc", "mime.types", "services", "protocols", "gai.conf", "host.conf", "terminfo", "login.defs", "shells", "python3"),
    *("perl", "magic", "magic.mime", "fonts", "security", "skel"),
)
_ETC_FILES = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n",
    "/etc/hostname": f"{HOSTNAME}\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
    "/etc/resolv.conf": "",
}
_EMPTY_FOLDERS = ("/opt", "/run", "/home", "/srv", "/mnt", "/app", "/var/lib", "/var/log", "/var/cache", "/var/spool")


class LayoutError(Exception):
    """A mount, shim or file that cannot be put into a sandbox. The message says which and why."""


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host, seen inside at ``target``; read-only unless ``writable``."""

    source: Path
    target: str
    writable: bool = False

    def __post_init__(self) -> None:
        if not self.source.is_absolute() or not _is_plain(self.target):
            raise LayoutError(f"mount {self.source}:{self.target}: both sides must be absolute paths, the second without '..'")


@dataclass(frozen=True)
class Layout:
    """What one sandbox has beyond the system: mounts, shims (name -> script, first in PATH), files (path -> text, ``~`` = its home)."""

    mounts: tuple[Mount, ...] = ()
    shims: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, room: int, logs: int) -> list[Argument]:
        """The arguments for bubblewrap, without the command. Raises LayoutError.

        ``room`` is how many bytes its files may take, ``logs`` how many of a harness's logs, which Harbor copies out.
        """
        return [
            *_namespaces(),
            *_system(str(room)),
            *_logs(str(logs)),
            *self._mounted(),
            *self._written(),
            "--chdir",
            "/",
            "--clearenv",
        ]

    def contents(self) -> Iterator[tuple[str, int, str]]:
        """Path, mode and text of everything that is written into a sandbox, shims and files. Raises LayoutError."""
        for name, script in self.shims.items():
            if not name or "/" in name or name in {".", ".."}:
                raise LayoutError(f"shim {name!r}: the name must be that of a command, without a path")
            yield f"{SHIMS}/{name}", 0o755, script
        for path, text in self.files.items():
            target = HOME + path[1:] if path.startswith("~/") else path
            if not _is_plain(target):
                raise LayoutError(f"file {path!r}: the path must be absolute or begin with '~/', without '..'")
            yield target, 0o644, text

    def _mounted(self) -> Iterator[Argument]:
        for mount in self.mounts:
            if not mount.source.exists():
                raise LayoutError(f"mount {mount.source}:{mount.target}: there is no {mount.source} on this machine")
            yield from _parents(mount.target)
            yield from ("--bind" if mount.writable else "--ro-bind", {"source": str(mount.source)}, mount.target)

    def _written(self) -> Iterator[Argument]:
        yield from (*_parents(SHIMS), "--perms", "0755", "--tmpfs", SHIMS)
        for path, mode, text in self.contents():
            yield from (*_parents(path), "--perms", f"{mode:04o}", "--file", {"data": text}, path)
        yield from ("--remount-ro", SHIMS)


def _is_plain(path: str) -> bool:
    return PurePosixPath(path).is_absolute() and ".." not in PurePosixPath(path).parts and "\0" not in path


def _parents(target: str) -> Iterator[Argument]:
    """Folders above a target, passable: those that bubblewrap makes by itself are closed to everyone but their owner."""
    for parent in reversed(PurePosixPath(target).parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(parent))


def _namespaces() -> Iterator[Argument]:
    yield from ("--die-with-parent", "--as-pid-1", "--new-session", "--hostname", HOSTNAME)
    yield from ("--unshare-user", "--uid", "0", "--gid", "0", "--disable-userns")
    yield from ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")


def _logs(room: str) -> Iterator[Argument]:
    yield from (*_parents(LOGS), "--size", room, "--perms", "0777", "--tmpfs", LOGS)


def _system(room: str) -> Iterator[Argument]:
    yield from ("--size", room, "--perms", "0755", "--tmpfs", "/")
    yield from ("--ro-bind", "/usr", "/usr")
    if Path("/usr/local").is_dir():
        yield from ("--size", room, "--perms", "0755", "--tmpfs", "/usr/local")
        for name in ("bin", "sbin", "lib", "share", "etc", "include"):
            yield from ("--perms", "0755", "--dir", f"/usr/local/{name}")
    for name in _SYSTEM_FOLDERS:
        if Path("/", name).is_dir():
            yield from ("--ro-bind", str(Path("/", name).resolve()), f"/{name}")
    yield from ("--perms", "0755", "--tmpfs", "/etc")
    for name in _ETC:
        if Path("/etc", name).exists():
            yield from (*_parents(f"/etc/{name}"), "--ro-bind", str(Path("/etc", name).resolve()), f"/etc/{name}")
    for path, text in _ETC_FILES.items():
        yield from ("--perms", "0644", "--file", {"data": text}, path)
    yield from ("--remount-ro", "/etc", "--proc", "/proc", "--dev", "/dev")
    yield from ("--size", room, "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108
    yield from ("--perms", "1777", "--dir", "/tmp", "--perms", "0700", "--dir", HOME)  # noqa: S108 - the sandbox's own
    for folder in _EMPTY_FOLDERS:
        yield from (*_parents(folder), "--perms", "0755", "--dir", folder)
    yield from ("--perms", "1777", "--dir", "/var/tmp", "--symlink", "/run", "/var/run")  # noqa: S108
