"""Keeps Harbor's own process off the network."""

from __future__ import annotations

import importlib
import os

_PRICES_FROM_DISK = "LITELLM_LOCAL_MODEL_COST_MAP"


def import_litellm_offline() -> None:
    """Import the LiteLLM that Harbor parses model names with, without its price list being fetched.

    LiteLLM downloads the list while it is imported, with three tries of several seconds, unless this variable says otherwise
    (https://docs.litellm.ai/docs/completion/token_usage). The environment is as it was when this returns.
    """
    before = os.environ.get(_PRICES_FROM_DISK)
    os.environ[_PRICES_FROM_DISK] = "True"
    try:
        importlib.import_module("harbor.llms.litellm_config")
    finally:
        if before is None:
            del os.environ[_PRICES_FROM_DISK]
        else:
            os.environ[_PRICES_FROM_DISK] = before
