"""What the tests of the bundled tasks share."""

import importlib.util
import sys
from types import ModuleType

import pytest

from pytest_harness.resources import resource


def load(name: str, *where: str) -> ModuleType:
    """A module of the data tasks, which are no package."""
    spec = importlib.util.spec_from_file_location(name, resource("fixtures", "tasks", "data", *where))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def grader() -> ModuleType:
    return load("data_grader", "shared", "tests", "grade.py")


@pytest.fixture(scope="session")
def maker() -> ModuleType:
    return load("data_maker", "make.py")
