"""What the inside of a sandbox can reach. Run as root, and by test_ordinary_user.py again as an ordinary user."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from pytest_harness.sandboxes.bubblewrap import Sandbox
from pytest_harness.sandboxes.layout import Mount
from pytest_harness.serving import BackgroundServer

PYTHON = f"{sys.base_prefix}/bin/python3"
PYTHON_MOUNT = Mount(Path(sys.base_prefix), sys.base_prefix)

ATTACKS = {
    "write": "echo forged >/cache/program",
    "replace": "rm -f /cache/program && echo forged >/cache/program",
    "remount": "mount -o remount,rw,bind /cache && echo forged >/cache/program",
    "unmount": "umount -l /cache",
    "cover": "mount -t tmpfs none /cache",
    "move": "mv /cache /elsewhere",
    "own mount namespace": "unshare -m mount -o remount,rw,bind /cache",
    "nested user namespace": "unshare -Urm mount -o remount,rw,bind /cache",
    "nested user namespace alone": "unshare -U true",
    "the holder's mount namespace": "nsenter -t 1 -m mount -o remount,rw,bind /cache",
    "the holder's user namespace": "nsenter -t 1 -U true",
    "raw device": "mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk",
    "kernel setting": "echo /tmp/x >/proc/sys/kernel/core_pattern",
    "raising the namespace limit": "echo 100 >/proc/sys/user/max_user_namespaces && unshare -U true",
    "another loader": "mv /lib64 /l || mv /lib /l",
    "another program": "cp /bin/true /usr/bin/env || cp /bin/true /bin/env",
    "preloading": "echo /tmp/x.so >/etc/ld.so.preload",
    "a shim": "echo true >$(command -v helper)",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_nothing_that_is_mounted_read_only_can_be_changed(opened, cache, attack):
    async with opened(mounts=(Mount(cache, "/cache"),), shims={"helper": "#!/bin/sh\necho helped\n"}) as shell:
        assert (await shell(attack)).code != 0
        assert await shell.text("cat /cache/program; helper") == "genuinehelped"
    assert (cache / "program").read_text() == "genuine"


async def test_a_command_holds_no_power_over_the_namespaces_it_runs_in(opened):
    script = """
import ctypes, fcntl, os
libc = ctypes.CDLL(None, use_errno=True)
results = [libc.unshare(flag) for flag in (0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)]
owner = fcntl.ioctl(os.open("/proc/self/ns/mnt", os.O_RDONLY), 0xB701)
print(results, os.fstat(owner).st_ino == os.stat("/proc/self/ns/user").st_ino)
"""
    async with opened(mounts=(PYTHON_MOUNT,)) as shell:
        # NS_GET_USERNS names the owner of the mounts; being refused it, or seeing another one, both mean "not ours"
        finished = await shell(f"{PYTHON} -c '{script}'")
        assert b"True" not in finished.stdout
        assert b"[-1, -1, -1, -1, -1, -1]" in finished.stdout or b"Operation not permitted" in finished.stderr
        capabilities = await shell.text("grep -h CapBnd /proc/self/status | cut -f2")
        for power in {"SYS_ADMIN": 21, "SYS_PTRACE": 19, "NET_ADMIN": 12, "SYS_MODULE": 16, "SYS_RESOURCE": 24}.values():
            assert not int(capabilities, 16) & 1 << power


async def test_tracing_the_holder_gains_nothing(opened, cache):
    # Process 1 may be traced (it runs as the same user): it must have nothing that the tracer has not
    async with opened(mounts=(Mount(cache, "/cache"), PYTHON_MOUNT)) as shell:
        assert set((await shell.text("grep -h ^Cap /proc/1/status | cut -f2")).split()) == {"0" * 16}
        assert await shell.text("readlink /proc/1/ns/user") == await shell.text("readlink /proc/self/ns/user")
        held = (await shell.text("for fd in /proc/1/fd/*; do readlink $fd; done")).split()
        assert all(name == "/dev/null" or name.startswith("pipe:") for name in held)
        assert (await shell("echo forged >/proc/1/root/cache/program")).code != 0
    assert (cache / "program").read_text() == "genuine"


async def test_a_command_gets_no_descriptor_but_its_three_streams(shell):
    assert await shell.text("ls -x /proc/$$/fd; :") in {"0  1  2", "0  1  2  255"}


async def test_nothing_of_the_hosts_folders_is_there(shell, tmp_path):
    (tmp_path / "secret").write_text("canary")
    assert (await shell(f"cat {tmp_path}/secret")).code != 0
    assert (
        await shell.text("ls -A /root /home /run /tmp /srv /mnt /opt /var/tmp /var/lib /usr/local/bin | grep -v ':$' | xargs")
        == "harness-conformance"
    )


@pytest.mark.parametrize(
    "path", ["shadow", "shadow-", "gshadow", "sudoers", "sudoers.d", "ssh", "npmrc", "pip.conf", "gitconfig", "machine-id", "ssl/private"]
)
async def test_no_account_key_or_registry_of_the_host_is_in_etc(shell, path):
    assert (await shell(f"test -e /etc/{path}")).code == 1


async def test_the_environment_is_built_from_nothing(shell, monkeypatch):
    monkeypatch.setenv("CANARY", "secret")
    names = {line.partition("=")[0] for line in (await shell.text("env")).splitlines()}
    assert names <= {"HOME", "HOSTNAME", "LANG", "PATH", "PWD", "SHLVL", "_", "OLDPWD"}
    assert "CANARY" not in await shell.text("cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")


def test_uid_0_is_left_on_the_host():
    with Sandbox.start() as sandbox:
        status = Path(f"/proc/{sandbox._keeper.pid}/status").read_text()
        assert set(status.partition("Uid:\t")[2].partition("\n")[0].split()) == {str(os.getuid() or 65533)}
        assert status.partition("Groups:")[2].partition("\n")[0].split() == [] if os.getuid() == 0 else True


async def test_the_host_cannot_be_reached(shell):
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        for address in {"127.0.0.1", _own_address()}:
            assert (await shell(f"exec 3<>/dev/tcp/{address}/{port}")).code != 0
        assert (await shell("getent hosts example.com || getent hosts localhost.localdomain")).code != 0
        assert (await shell("exec 3<>/dev/udp/192.0.2.53/53 && printf x >&3")).code != 0
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_abstract_sockets_of_the_host_cannot_be_reached(opened):
    name = f"\0canary-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        async with opened(mounts=(PYTHON_MOUNT,)) as shell:
            script = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + {name[1:]!r})"
            finished = await shell(f'{PYTHON} -c "{script}"')
    assert b"ConnectionRefusedError" in finished.stderr


async def test_a_port_inside_can_be_served_from_the_host(shell):
    seen = []

    async def app(scope, receive, send) -> None:
        seen.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})

    request = "exec 3<>/dev/tcp/127.0.0.1/8555 && printf 'GET /from/inside HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
    assert (await shell(request)).code != 0
    with BackgroundServer(app) as server:
        listener = server.listen(await asyncio.to_thread(shell.sandbox.listener, 8555))
        assert (await shell.text(request)).endswith("hello")
        listener.close()
        assert (await shell(request)).code != 0
    assert seen == ["/from/inside"]


async def test_the_same_port_serves_two_sandboxes_apart(opened):
    async with opened() as one, opened() as other:
        with one.sandbox.listener(8555), other.sandbox.listener(8555) as theirs:
            assert (await one("exec 3<>/dev/tcp/127.0.0.1/8555")).code == 0
            theirs.setblocking(False)
            with pytest.raises(BlockingIOError):
                theirs.accept()


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.53", 53))
        except OSError:
            return "127.0.0.1"
        return probe.getsockname()[0]
