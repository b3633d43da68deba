"""A harness that is a part of Harbor: it is there where Harbor is, in this Python environment."""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pytest_harness.provision.cache import ProvisionError
from pytest_harness.provision.python import what_is_there
from pytest_harness.provision.tools import digest_of
from pytest_harness.sandboxes.layout import PATH


def check_programs(name: str, programs: Iterable[str]) -> None:
    """Raises ProvisionError if this machine, and so the sandbox, lacks one of the programs that the harness needs there."""
    missing = [program for program in programs if shutil.which(program, path=PATH) is None]
    if missing:
        raise ProvisionError(f"{name} needs {' and '.join(missing)} in the sandbox, which has this machine's programs; install it in /usr")


def harbor_version() -> str:
    """Harbor's version, which is the harness's."""
    return importlib.metadata.version("harbor")


@cache
def harbor_digest() -> str:
    """SHA-256 over all that is installed beside Harbor and over Harbor's own files."""
    _, lines = what_is_there(Path(str(importlib.metadata.distribution("harbor").locate_file(""))), "harbor")
    return digest_of(lines)
