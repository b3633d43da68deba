"""Google's schema dialect (OpenAPI 3.0 with upper-case type names) as JSON Schema, keyword by keyword and at every depth."""

from __future__ import annotations

from typing import Any

from pytest_harness.capture.dialects.base import RefusalError
from pytest_harness.capture.dialects.gemini_fields import fields, strings, whole_number
from pytest_harness.capture.dialects.neutral import Json, expect

_DEEPEST = 64
_SCHEMAS = ("items", "additionalProperties", "not")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "$defs", "definitions")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_RENAMED = {"defs": "$defs", "ref": "$ref"}


def json_schema(schema: object, where: str, depth: int = 0) -> Json:
    """The JSON Schema that says what Google's says.

    Type names become lower case; ``nullable`` becomes a type ``null`` beside the others (and a null in ``enum``); ``propertyOrdering``
    becomes the order of the properties; ``example`` becomes ``examples``; counts may be written as strings. Keywords that are JSON
    Schema's own, ``format`` among them, stay. Raises RefusalError naming the place.
    """
    if depth > _DEEPEST:
        raise RefusalError(f"{where} is nested more than {_DEEPEST} schemas deep", where)
    read: Json = {}
    for name, value in fields(schema, where).items():
        keyword, here = _RENAMED.get(name, name), f"{where}.{name}"
        if keyword in _SCHEMAS and not isinstance(value, bool):
            read[keyword] = json_schema(value, here, depth + 1)
        elif keyword in _LISTS:
            read[keyword] = [json_schema(item, f"{here}[{n}]", depth + 1) for n, item in enumerate(expect(value, list, here))]
        elif keyword in _MAPS:
            read[keyword] = {key: json_schema(item, f"{here}.{key}", depth + 1) for key, item in expect(value, dict, here).items()}
        elif keyword in _COUNTS:
            read[keyword] = whole_number(value, here)
        else:
            read[keyword] = value
    return _translated(read, where)


def _translated(schema: Json, where: str) -> Json:
    kind = _type(schema.pop("type", None), f"{where}.type")
    if kind is not None:
        schema = {"type": kind, **schema}
    if "example" in schema:
        schema["examples"] = [schema.pop("example")]
    ordering = strings(schema.pop("propertyOrdering", []), f"{where}.propertyOrdering")
    if ordering and "properties" in schema:
        properties = schema["properties"]
        first = {name: properties[name] for name in ordering if name in properties}
        schema["properties"] = first | properties
    if schema.pop("nullable", False) is True:
        schema = _nullable(schema)
    return schema


def _nullable(schema: Json) -> Json:
    kind = schema.get("type")
    if kind is not None:
        kinds = kind if isinstance(kind, list) else [kind]
        schema["type"] = kinds if "null" in kinds else [*kinds, "null"]
    elif "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema


def _type(value: Any, where: str) -> str | list[str] | None:
    if isinstance(value, list):
        return [name.lower() for name in strings(value, where)]
    name = None if value is None else expect(value, str, where)
    return None if name in (None, "TYPE_UNSPECIFIED") else str(name).lower()
