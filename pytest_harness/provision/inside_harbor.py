"""A harness that is a part of Harbor: it is there where Harbor is, in this Python environment."""

from __future__ import annotations

import importlib.metadata
from functools import cache
from pathlib import Path

from pytest_harness.provision.python import what_is_there
from pytest_harness.provision.tools import digest_of


def harbor_version() -> str:
    """Harbor's version, which is the harness's."""
    return importlib.metadata.version("harbor")


@cache
def harbor_digest() -> str:
    """SHA-256 over all that is installed beside Harbor and over Harbor's own files."""
    _, lines = what_is_there(Path(str(importlib.metadata.distribution("harbor").locate_file(""))), "harbor")
    return digest_of(lines)
