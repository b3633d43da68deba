"""Scenarios: a Harbor task plus the script that the engine follows, one TOML file each.

``model`` is what a scenario is, ``reading`` makes one of its file, ``table`` has all of them by name.
"""

from pytest_harness.scenarios.model import Scenario, ScenarioError, ScenarioStep, Subagent
from pytest_harness.scenarios.table import ScenarioTable

__all__ = ["Scenario", "ScenarioError", "ScenarioStep", "ScenarioTable", "Subagent"]
