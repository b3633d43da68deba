"""Placeholders in the strings of a row: what is one, which a row holds, and how they are filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z_]+)\}")


def placeholders(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """The dotted key and the name of each placeholder in the strings of ``value``, however deep; ``key`` is where it stands."""
    if isinstance(value, str):
        for name in _PLACEHOLDER.findall(value):
            yield key, name
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from placeholders(f"{key}.{name}", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from placeholders(f"{key}.{index}", item)


def fill(value: Any, values: Mapping[str, str | int]) -> Any:
    """``value`` with its placeholders filled in, in one pass; a string that is one placeholder and nothing else becomes its value."""
    if isinstance(value, str):
        whole = _PLACEHOLDER.fullmatch(value)
        if whole and whole[1] in values:
            return values[whole[1]]
        return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), value)
    if isinstance(value, dict):
        return {key: fill(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, values) for item in value]
    return value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``over`` laid over it, table by table."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
