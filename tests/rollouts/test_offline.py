"""LiteLLM is imported without its price list being fetched, and only where somebody needs it."""

from __future__ import annotations

import importlib
import sys

import pytest

from pytest_harness.rollouts.offline import keep_litellm_offline

PRICES = "LITELLM_LOCAL_MODEL_COST_MAP"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A LiteLLM that only takes down what it is told of its prices; its source may be replaced."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "litellm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "litellm"
    package.mkdir()
    (package / "__init__.py").write_text(f"import os\nTOLD = os.environ.get('{PRICES}')\n")
    (package / "part.py").write_text(f"import os\nTOLD = os.environ.get('{PRICES}')\n")
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "litellm"]:
        del sys.modules[name]


@pytest.mark.parametrize("before", [None, "False"])
def test_it_is_told_to_take_its_prices_from_the_disk_and_the_environment_stays_as_it_was(fake, monkeypatch, before):
    if before is None:
        monkeypatch.delenv(PRICES, raising=False)
    else:
        monkeypatch.setenv(PRICES, before)
    keep_litellm_offline()
    assert importlib.import_module("litellm").TOLD == "True"
    assert before == importlib.import_module("litellm.part").TOLD


def test_it_is_not_imported_before_somebody_needs_it(fake):
    keep_litellm_offline()
    keep_litellm_offline()
    assert "litellm" not in sys.modules


def test_one_that_breaks_while_it_is_imported_leaves_the_environment_as_it_was(fake, monkeypatch):
    monkeypatch.delenv(PRICES, raising=False)
    (fake / "__init__.py").write_text("raise ImportError('broken')\n")
    keep_litellm_offline()
    with pytest.raises(ImportError, match="broken"):
        importlib.import_module("litellm")
    with pytest.raises(KeyError):
        monkeypatch.delenv(PRICES)


def test_where_there_is_none_it_is_as_missing_as_ever(fake, monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    keep_litellm_offline()
    with pytest.raises(ModuleNotFoundError, match="No module named 'litellm'"):
        importlib.import_module("litellm")
