"""The seam table: how each harness is installed, pointed at us, and understood. One TOML file a harness; a row is pure data."""

from pytest_harness.seams.rows import (
    AgentTable,
    Edit,
    Finish,
    HarborInstall,
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
from pytest_harness.seams.unavailable import Unavailable, read_unavailable, unavailable_schema

__all__ = [
    "AgentTable",
    "Edit",
    "Finish",
    "HarborInstall",
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
    "Unavailable",
    "json_schema",
    "read_seams",
    "read_unavailable",
    "unavailable_schema",
]
