"""The table of backends says of each what Harbor itself says, and what a machine lacks for one is computed."""

import ast
import importlib.metadata
import importlib.util
import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
from harbor.environments.factory import _ENVIRONMENT_REGISTRY, EnvironmentFactory
from harbor.models.environment_type import EnvironmentType

from pytest_harness.resources import resource
from pytest_harness.sandboxes.catalogue import bundled_catalogue, catalogue_schema, has_extra, read_catalogue
from pytest_harness.seams import SeamError

CATALOGUE = bundled_catalogue()
REGISTRY = {each.value: entry for each, entry in _ENVIRONMENT_REGISTRY.items()}
OF_DOCKER = {"podman", "kata"}
"""Their classes are Docker's, less what their engine cannot."""

ENTRY = """\
[[sandbox]]
name = "cloud"
title = "A cloud"
runs = "remote"
reach = "public-url"
extra = "modal"
programs = ["true"]
credentials = [{ variables = ["CLOUD_ID", "CLOUD_SECRET"] }, { file = "~/.cloud", command = "cloud login" }]
capabilities = ["gpus"]
"""


@pytest.fixture
def empty_machine(monkeypatch, tmp_path):
    """Neither a variable nor a file of any account."""
    for backend in CATALOGUE.values():
        for variable in (name for each in backend.credentials for name in each.variables):
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "sandboxes.toml"
    path.write_text(text)
    return path


def test_every_backend_that_harbor_registers_is_in_the_table_and_no_other():
    assert sorted(CATALOGUE) == EnvironmentFactory.registered_names()


def test_the_extra_of_each_backend_is_the_one_that_harbor_names():
    expected = {name: entry.pip_extra for name, entry in REGISTRY.items()}
    expected["ack"] = "gke"  # Harbor names none, and its class imports what this one brings
    assert {name: backend.extra for name, backend in CATALOGUE.items()} == expected
    known = set(importlib.metadata.metadata("harbor").get_all("Provides-Extra"))
    assert {backend.extra for backend in CATALOGUE.values() if backend.extra} <= known


def declared(module: str) -> set[str]:
    """The capabilities that a class of Harbor's may have, read from its source: most cannot be imported without their vendor's SDK."""
    root = Path(importlib.util.find_spec("harbor").origin).parents[1]
    path = root.joinpath(*module.split("."))
    files = sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    calls = [
        node
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "EnvironmentCapabilities"
    ]
    named = {word.arg for call in calls for word in call.keywords if ast.unparse(word.value) != "False"}
    if any(word.arg is None and "stream" in ast.unparse(word.value) for call in calls for word in call.keywords):
        named.add("stream")
    return {name for name in named if name and not name.startswith("network_allowlist_")}


@pytest.mark.parametrize("name", sorted(CATALOGUE.keys() - OF_DOCKER))
def test_what_a_backend_can_is_what_its_class_declares(name):
    assert set(CATALOGUE[name].capabilities) == declared(REGISTRY[name].module)


@pytest.mark.parametrize("name", sorted(OF_DOCKER))
def test_a_backend_made_of_dockers_class_can_no_more_than_docker(name):
    assert set(CATALOGUE[name].capabilities) < set(CATALOGUE["docker"].capabilities)


@pytest.mark.parametrize("name", ["cua-cloud", "daytona", "e2b", "kernel", "modal", "runloop"])
def test_harbors_own_check_asks_for_the_same_variables(name, empty_machine, monkeypatch):
    """Those whose check asks before it imports the vendor's SDK."""
    backend = CATALOGUE[name]
    with pytest.raises(SystemExit):
        EnvironmentFactory.run_preflight(EnvironmentType(name))
    assert "set " in backend.lacks[0]
    for way in (each for each in backend.credentials if each.variables):
        with monkeypatch.context() as with_these:
            for variable in way.variables[:-1]:
                with_these.setenv(variable, "x")
            assert "set " in backend.lacks[0]
            with_these.setenv(way.variables[-1], "x")
            EnvironmentFactory.run_preflight(EnvironmentType(name))
            assert not any("set " in wish for wish in backend.lacks)


def test_every_remote_backend_asks_for_credentials():
    assert [name for name, backend in CATALOGUE.items() if backend.runs == "remote" and not backend.credentials] == []


def test_no_remote_backend_reaches_loopback():
    assert {backend.reach for backend in CATALOGUE.values() if backend.runs == "remote"} == {"public-url"}


def test_what_is_lacking_is_said_with_the_variables_and_the_package(tmp_path, empty_machine, monkeypatch):
    monkeypatch.setattr("pytest_harness.sandboxes.catalogue.has_extra", lambda _: False)
    monkeypatch.setenv("CLOUD_ID", "only one of two")
    backend = read_catalogue(written(tmp_path, ENTRY.replace('"true"', '"there-is-no-such"')))["cloud"]
    assert backend.lacks == (
        "set CLOUD_ID and CLOUD_SECRET or run cloud login",
        "pip install 'harbor[modal]'",
        "install there-is-no-such",
    )


def test_one_way_to_prove_who_asks_is_enough(tmp_path, empty_machine, monkeypatch):
    monkeypatch.setattr("pytest_harness.sandboxes.catalogue.has_extra", lambda _: True)
    backend = read_catalogue(written(tmp_path, ENTRY))["cloud"]
    (empty_machine / ".cloud").touch()
    assert backend.lacks == ()
    (empty_machine / ".cloud").unlink()
    monkeypatch.setenv("CLOUD_ID", "1")
    monkeypatch.setenv("CLOUD_SECRET", "")
    assert backend.lacks != ()
    monkeypatch.setenv("CLOUD_SECRET", "2")
    assert backend.lacks == ()


def test_a_login_that_leaves_nothing_to_be_seen_is_not_called_lacking(tmp_path, empty_machine):
    text = ENTRY.replace('file = "~/.cloud", ', "").replace('extra = "modal"\n', "")
    backend = read_catalogue(written(tmp_path, text))["cloud"]
    assert backend.lacks == ()
    assert backend.unseen == "set CLOUD_ID and CLOUD_SECRET or run cloud login"


def test_an_extra_is_there_if_all_its_packages_are():
    assert has_extra("modal") == (importlib.util.find_spec("modal") is not None)
    assert has_extra("sbx") == (importlib.util.find_spec("python_multipart") is not None)


def test_the_bundled_table_fits_the_published_schema_which_is_the_one_the_models_give():
    schema = json.loads(resource("seams", "sandboxes.schema.json").read_text())
    assert schema == catalogue_schema(), (
        "seams/sandboxes.schema.json is stale; write json.dumps(pytest_harness.sandboxes.catalogue.catalogue_schema(), indent=2) into it"
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(tomllib.loads(resource("seams", "sandboxes.toml").read_text()), schema)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"remote"', '"somewhere"', 'sandbox.0.runs: "somewhere" found, "here" or "remote" expected'),
        ('"gpus"', '"fly"', 'sandbox.0.capabilities.0: "fly" found'),
        ('title = "A cloud"\n', "", "sandbox.0.title: nothing found, a value such as"),
        ('title = "A cloud"\n', 'title = "A cloud"\nstate = "ready"\n', "sandbox.0.state: unknown key found"),
        ('{ file = "~/.cloud", command = "cloud login" }', "{}", "variables alone, or a file or a command expected"),
        ("[[sandbox]]", "[[sandbox", "is not TOML"),
        (ENTRY, ENTRY + ENTRY, "cloud found more than once, one entry each expected"),
    ],
)
def test_what_is_wrong_with_the_table_is_one_sentence(tmp_path, old, new, sentence):
    with pytest.raises(SeamError) as caught:
        read_catalogue(written(tmp_path, ENTRY.replace(old, new)))
    assert sentence in str(caught.value)
    assert "sandboxes.toml" in str(caught.value)
    assert "\n" not in str(caught.value)
