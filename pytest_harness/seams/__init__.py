"""The seam table: how each harness is installed, pointed at us, and understood. One TOML file a harness; a row is pure data."""

from pytest_harness.seams.rows import (
    AgentTable,
    Finish,
    Install,
    Native,
    NpmInstall,
    PreinstalledInstall,
    PypiInstall,
    RenderedAgent,
    Seam,
    SeamError,
    Shell,
    StepLimit,
)
from pytest_harness.seams.table import SeamTable, json_schema, read_seams

__all__ = [
    "AgentTable",
    "Finish",
    "Install",
    "Native",
    "NpmInstall",
    "PreinstalledInstall",
    "PypiInstall",
    "RenderedAgent",
    "Seam",
    "SeamError",
    "SeamTable",
    "Shell",
    "StepLimit",
    "json_schema",
    "read_seams",
]
