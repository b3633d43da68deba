"""Brings the healthy evidence of the contract's tests here."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def healthy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("healthy", Path(__file__).parents[1] / "contract" / "healthy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
