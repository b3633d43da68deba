"""The least that fits a JSON Schema: what a request for a reply of that shape gets when it is nobody's conversation.

gemini-cli asks so, after thirty turns, whether its agent goes round in circles, and asks again and again until it gets such a reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def fitting(schema: Any, words: str) -> Any:
    """A value of this shape: texts are ``words``, numbers the least that is allowed, 0 where nothing is said, and lists are empty."""
    if not isinstance(schema, Mapping):
        return words
    for key in ("enum", "anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list) and options:
            return options[0] if key == "enum" else fitting(options[0], words)
    kind = schema.get("type")
    properties = schema.get("properties")
    values = {
        "object": {name: fitting(each, words) for name, each in properties.items()} if isinstance(properties, Mapping) else {},
        "array": [],
        "number": schema.get("minimum", 0),
        "integer": schema.get("minimum", 0),
        "boolean": False,
        "null": None,
    }
    return values.get(kind[0] if isinstance(kind, list) and kind else str(kind), words)
