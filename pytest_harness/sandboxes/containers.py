"""A sandbox in a container of docker or podman, for ``--sandbox=docker`` and ``--sandbox=podman``.

The container has no network but loopback. Its process 1 is the warden (``warden.py``), which connects to a socket of ours that is mounted
into it, and is asked for everything over that one connection, as the keeper of a local sandbox is: commands run in no time, a socket that
listens inside comes out by it, and the container ends when it is closed, also where this process was killed. The engine is asked for
nothing but the container's beginning and its end; it keeps nothing of it (``--rm``).
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from pytest_harness.owners import owner, temporary_folder
from pytest_harness.sandboxes.channel import RunningSandbox, SandboxError
from pytest_harness.sandboxes.container_cli import BASE_IMAGE, KIND, MAKE_BASE, OWNER, ContainerCli, Engine, said
from pytest_harness.sandboxes.layout import HOSTNAME, LOGS, OURS, Layout, LayoutError, Mount
from pytest_harness.seams.limits import MB, Limits

WARDEN = f"{OURS}/warden"
CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "SETFCAP",
)
"""What is the same in both engines' defaults."""
GRACE_SEC = 2.0
"""For the container to end by itself when the channel is closed. It has nothing to say by then: what comes after is SIGKILL."""
START_SEC = 60.0
_PAUSE_SEC = 0.02


class ContainerSandbox(RunningSandbox):
    """One running container. ``name`` is the engine's name for it."""

    def __init__(
        self, name: str, keeper: subprocess.Popen[bytes], channel: socket.socket, cli: ContainerCli, work: contextlib.ExitStack
    ) -> None:
        super().__init__(name, keeper, channel)
        self._cli = cli
        self._work = work

    @classmethod
    def start(cls, cli: ContainerCli, image: str, layout: Layout | None = None, limits: Limits | None = None) -> Self:
        """Start one of ``image``, which the engine has; it is ready when this returns. Raises SandboxError."""
        layout, limits = layout or Layout(), limits or Limits()
        try:
            files = {path: (mode, text) for path, mode, text in layout.contents()}
        except LayoutError as error:
            raise SandboxError(str(error)) from None
        name = f"harness-conformance-{secrets.token_hex(6)}"
        with _meeting_place() as (folder, server), tempfile.TemporaryFile() as errors, contextlib.ExitStack() as work:
            command = [cli.path(), *_arguments(name, layout, limits, folder), "--entrypoint", "python3", image]
            keeper = subprocess.Popen(
                [*command, "-I", "-S", f"{WARDEN}/warden.py", f"{WARDEN}/socket"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                # podman's monitor leaves a file "oom" where it stands, https://github.com/containers/conmon/blob/main/src/oom.c
                cwd=work.enter_context(temporary_folder("engine")),
                start_new_session=True,  # a Ctrl-C at the terminal is for pytest, which then closes the sandbox
            )
            try:
                channel = _met(cli, keeper, server, errors)
            except BaseException:
                with contextlib.suppress(SandboxError):
                    cli.remove(name)
                keeper.kill()
                keeper.wait()
                raise
            sandbox = cls(name, keeper, channel, cli, work.pop_all())
        sandbox._begin({"contents": files, "file_size": limits.disk_mb * MB})
        return sandbox

    def written(self) -> int | None:
        """Bytes that the engine has of its files."""
        try:
            return int(self._cli.ask("container", "inspect", "--size", "--format", "{{.SizeRw}}", self.name))
        except (SandboxError, ValueError):
            return None  # whoever waits for the command is told

    def close(self) -> None:
        """End everything that runs inside. Returns when it is gone, with all that the engine had of it. Closing twice is harmless."""
        self._channel.close()
        try:
            self._keeper.wait(GRACE_SEC)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(SandboxError):  # it is being removed already, or the engine is dead and holds nothing that runs
                self._cli.remove(self.name)
            _ended(self._keeper)
        self._work.close()

    def remains(self) -> bool:
        """Whether the engine still has the container; it is then taken away."""
        try:
            found = any(each.name == self.name for each in self._cli.containers())
            if found:
                self._cli.remove(self.name)
        except SandboxError:
            return True
        return found


def check(engine: Engine, image: str | None = None) -> str | None:
    """None if a sandbox of this engine can be started here, else one sentence saying why not and what to do. It really starts one."""
    cli = ContainerCli(engine)
    try:
        ContainerSandbox.start(cli, found_image(cli, image)).close()
    except SandboxError as error:
        return f"--sandbox={engine}: {error}"
    return None


def found_image(cli: ContainerCli, image: str | None = None) -> str:
    """The digest of this image, or of our base image. Raises SandboxError if the engine does not have it."""
    cli.version()
    digest = cli.image_id(image or BASE_IMAGE)
    if digest is not None:
        return digest
    if image is None:
        raise SandboxError(f"{cli.engine} has no base image; make it ({MAKE_BASE} {cli.engine}), or name one of yours with --image")
    raise SandboxError(f"--image {image}: {cli.engine} does not have it, and nothing is pulled here; run {cli.engine} pull {image}")


def _arguments(name: str, layout: Layout, limits: Limits, folder: Path) -> list[str]:
    """Everything between the program and the image."""
    mounts = [_mount(Mount(folder, WARDEN)), *(_mount(each) for each in layout.mounts)]
    # What lies in memory as a file counts too, and the watch that says which limit was struck comes first (``limits.py``).
    memory = f"{limits.memory_mb + limits.memory_mb // 4 + limits.output_mb}m"
    return [
        *("run", "--rm", "--pull", "never", "--name", name, "--label", f"{KIND}=sandbox", "--label", f"{OWNER}={owner()}"),
        *("--network", "none", "--hostname", HOSTNAME, "--user", "0:0", "--workdir", "/", "--log-driver", "none"),
        *("--cap-drop", "ALL", *(f"--cap-add={each}" for each in CAPABILITIES)),
        *("--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
        *("--memory", memory, "--memory-swap", memory, "--pids-limit", str(limits.processes)),
        *("--tmpfs", f"{LOGS}:rw,nosuid,nodev,size={limits.output_mb}m,mode=0777"),
        *(argument for mount in mounts for argument in ("--mount", mount)),
    ]


def _mount(mount: Mount) -> str:
    """As ``--mount`` wants it: fields of a line of CSV, so that a path may have a comma or a colon."""
    if not mount.source.exists():
        raise SandboxError(f"mount {mount.source}:{mount.target}: there is no {mount.source} on this machine")
    line = io.StringIO()
    fields = ["type=bind", f"source={mount.source.resolve()}", f"target={mount.target}"]
    csv.writer(line, lineterminator="").writerow(fields if mount.writable else [*fields, "readonly"])
    return line.getvalue()


@contextmanager
def _meeting_place() -> Iterator[tuple[Path, socket.socket]]:
    """A folder to be mounted, with the warden and the socket at which it is waited for. Both are gone when it has come.

    Nobody else of this machine can pass the closed folder around it; the container's root, whoever that is here, can.
    """
    with temporary_folder("container") as around, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        folder = around / "warden"
        folder.mkdir()
        for name in ("keeper.py", "warden.py"):
            shutil.copy(Path(__file__).with_name(name), folder)
        folder.chmod(0o755)
        place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            server.bind(f"/proc/self/fd/{place}/socket")  # however long the path is
        finally:
            os.close(place)
        (folder / "socket").chmod(0o666)
        server.listen(1)
        server.settimeout(_PAUSE_SEC)
        yield folder, server


def _ended(keeper: subprocess.Popen[bytes]) -> None:
    """Wait until the engine's program has seen the container go, which may take it a while; no longer than for its coming."""
    try:
        keeper.wait(START_SEC)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()


def _met(cli: ContainerCli, keeper: subprocess.Popen[bytes], server: socket.socket, errors: IO[bytes]) -> socket.socket:
    """The connection of the warden. Raises SandboxError with what the engine complained of, if it does not come."""
    patience = time.monotonic() + START_SEC
    while time.monotonic() < patience:
        try:
            channel, _ = server.accept()
        except TimeoutError:
            if keeper.poll() is None:
                continue
            errors.seek(0)
            complaint = said(errors.read().decode(errors="replace"))
            raise SandboxError(f"{cli.engine} started no container ({complaint}); an image needs bash, tar and python3 >= 3.10") from None
        channel.setblocking(True)
        return channel
    raise SandboxError(f"a container of {cli.engine} has not come up in {START_SEC:.0f} seconds; the engine must run on this machine")
