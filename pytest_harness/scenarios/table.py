"""All scenarios by name: the bundled ones, and those of folders that are named."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_harness.resources import resource
from pytest_harness.scenarios.model import Scenario, ScenarioError
from pytest_harness.scenarios.reading import read_scenario


class ScenarioTable:
    """All scenarios by name, in the order of their names."""

    def __init__(self, scenarios: Mapping[str, Scenario]) -> None:
        self._scenarios = dict(sorted(scenarios.items()))

    @classmethod
    def load(cls, *folders: Path) -> ScenarioTable:
        """Read the bundled scenarios, then those of ``folders``; a later one replaces an earlier one of the same name.

        Raises ScenarioError for a file that is not a scenario, and for a folder without any.
        """
        scenarios: dict[str, Scenario] = {}
        for folder in (resource("fixtures", "scenarios"), *folders):
            paths = sorted(folder.glob("*.toml"))
            if not paths:
                raise ScenarioError(f"{folder} has no scenarios; it must be a folder with a .toml file for each")
            scenarios |= {path.stem: read_scenario(path) for path in paths}
        return cls(scenarios)

    def __getitem__(self, name: str) -> Scenario:
        """The scenario of this name. Raises ScenarioError with the nearest names if there is none."""
        try:
            return self._scenarios[name]
        except KeyError:
            near = difflib.get_close_matches(name, self._scenarios)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(self._scenarios)}"
            raise ScenarioError(f"there is no scenario {name!r}; {hint}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._scenarios)

    def __len__(self) -> int:
        return len(self._scenarios)
