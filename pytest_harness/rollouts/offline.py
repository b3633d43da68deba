"""Keeps Harbor's own process off the network."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

_PRICES_FROM_DISK = "LITELLM_LOCAL_MODEL_COST_MAP"


def keep_litellm_offline() -> None:
    """See to it that the LiteLLM with which Harbor parses model names does not fetch its price list, whenever it is imported.

    LiteLLM downloads the list while it is imported, with three tries of several seconds, unless a variable says otherwise
    (https://docs.litellm.ai/docs/completion/token_usage). The environment is changed for the time of that import alone. Nothing is
    imported here: most harnesses need no LiteLLM, and it takes longer to import than all the rest together.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds LiteLLM, and nothing else."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "litellm":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


class _Loader(SourceFileLoader):
    """Runs a module with the prices from the disk."""

    def exec_module(self, module: ModuleType) -> None:
        before = os.environ.get(_PRICES_FROM_DISK)
        os.environ[_PRICES_FROM_DISK] = "True"
        try:
            super().exec_module(module)
        finally:
            if before is None:
                del os.environ[_PRICES_FROM_DISK]
            else:
                os.environ[_PRICES_FROM_DISK] = before
