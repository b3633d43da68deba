"""Runs the steps of a job of a workflow here, as far as the bundled ones go: shell steps, and the steps of our own action."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
OURS = "harness-conformance/harness-conformance@"
ELSEWHERE = ("actions/checkout@", "actions/upload-artifact@")
"""What GitHub does around our steps; here the files are there already."""


class Job:
    """One job in a folder that is checked out. ``facts`` are what expressions may ask for, such as ``github.token``."""

    def __init__(self, folder: Path, env: dict[str, str], facts: dict[str, str]) -> None:
        self.folder, self.env, self.facts = folder, env, facts
        self.said = ""
        self.code = 0

    def run(self, steps: list[dict[str, Any]], prefix: str = "") -> None:
        """Run them in order; after a failure only those that run always."""
        for step in steps:
            if not self._wanted(step.get("if", "")):
                continue
            uses = step.get("uses", "")
            if uses.startswith(OURS):
                self._action(step.get("with", {}))
            elif "run" in step:
                self._shell(step, prefix)
            else:
                assert uses.startswith(ELSEWHERE), f"nobody knows what {step} does"

    def _action(self, given: dict[str, str]) -> None:
        action = yaml.safe_load((ROOT / "action.yml").read_text())
        unknown = set(given) - set(action["inputs"])
        assert not unknown, f"the action has no input {unknown}"
        for name, spec in action["inputs"].items():
            assert name in given or not spec.get("required"), f"the input {name} is missing"
            self.facts.setdefault(f"inputs.{name}", self._filled(str(given.get(name, spec.get("default", "")))))
        self.run(action["runs"]["steps"], "action.")

    def _shell(self, step: dict[str, Any], prefix: str) -> None:
        assert "${{" not in step["run"], "an expression in a script is a place for commands of others"
        output, variables = self.folder / ".output", self.folder / ".variables"
        for file in (output, variables):
            file.write_text("")
        env = {name: self._filled(str(value)) for name, value in step.get("env", {}).items()}
        own = {"GITHUB_OUTPUT": str(output), "GITHUB_ENV": str(variables), "GITHUB_ACTION_PATH": str(ROOT)}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env=self.env | own | env,
            capture_output=True,
            text=True,
            check=False,
        )
        self.said += done.stdout + done.stderr
        self.code = self.code or done.returncode
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            self.facts[f"steps.{step['id']}.outputs.{name}"] = value
        for line in variables.read_text().splitlines():
            name, _, value = line.partition("=")
            self.env[name] = value

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda found: self.facts[found[1]], text)

    def _wanted(self, condition: str) -> bool:
        parts = [part.strip() for part in condition.split("&&") if part.strip()]
        always = "always()" in parts
        return (always or not self.code) and all(self._holds(part) for part in parts if part != "always()")

    def _holds(self, comparison: str) -> bool:
        name, operator, text = re.fullmatch(r"([\w.-]+) (==|!=) '([^']*)'", comparison).groups()
        return (self.facts[name] == text) == (operator == "==")
