"""The requirements: frozen sets, read from ``conformance/requirements/``."""

from pytest_harness.requirements.catalogue import catalogue_versions, load_catalogue, read_catalogue, read_set, with_drafts
from pytest_harness.requirements.model import FAMILIES, Applies, Catalogue, Level, Requirement, RequirementsError, Subject
from pytest_harness.requirements.page import to_markdown

__all__ = [
    "FAMILIES",
    "Applies",
    "Catalogue",
    "Level",
    "Requirement",
    "RequirementsError",
    "Subject",
    "catalogue_versions",
    "load_catalogue",
    "read_catalogue",
    "read_set",
    "to_markdown",
    "with_drafts",
]
