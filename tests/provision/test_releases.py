"""The releases of a harness, oldest first, as npm and pip list them."""

from __future__ import annotations

import json

import pytest

from pytest_harness.provision import ProvisionError, releases
from pytest_harness.seams import SeamTable

NPM = ["1.0.0", "1.1.0-beta.1", "1.1.0"]
PIP = ["2.0", "1.1", "1.1rc1", "1.0"]


@pytest.fixture(scope="module")
def table():
    return SeamTable.load()


@pytest.fixture(autouse=True)
def registries(monkeypatch):
    """npm prints every version, oldest first; pip the newest first, and candidates only if asked."""

    def ask(what, command, env):
        return json.dumps({"versions": [each for each in PIP if "--pre" in command or "rc" not in each]})

    monkeypatch.setattr(releases, "ask", ask)
    monkeypatch.setattr(releases, "view_npm", lambda *_: json.dumps(NPM))


@pytest.mark.parametrize(
    ("name", "early", "listed"),
    [
        ("pi", False, ("1.0.0", "1.1.0")),
        ("pi", True, ("1.0.0", "1.1.0-beta.1", "1.1.0")),
        ("mini-swe-agent", False, ("1.0", "1.1", "2.0")),
        ("mini-swe-agent", True, ("1.0", "1.1rc1", "1.1", "2.0")),
    ],
)
def test_they_stand_in_order_and_candidates_only_where_they_are_wanted(table, name, early, listed):
    assert releases.releases_of(table[name], print, early=early) == listed


def test_a_package_with_a_single_release_is_no_special_case(table, monkeypatch):
    monkeypatch.setattr(releases, "view_npm", lambda *_: '"1.0.0"')
    assert releases.releases_of(table["pi"], print) == ("1.0.0",)


def test_a_harness_from_no_registry_is_one_sentence(table):
    preinstalled = table["pi"].model_copy(update={"install": None})
    with pytest.raises(ProvisionError, match="pi comes from no registry"):
        releases.releases_of(preinstalled, print)
