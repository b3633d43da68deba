"""Turns pydantic's errors about a TOML row into sentences: the dotted key, what was found, what was expected."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

_KINDS = {
    "string_type": "a string",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_too_short": "a string that is not empty",
    "too_short": "at least one entry",
}


def describe(model: type[BaseModel], error: ValidationError) -> Iterator[str]:
    """One sentence an error, such as ``install.version: 1 found, a string such as "1.6.0" expected``."""
    for detail in error.errors(include_url=False):
        yield _sentence(model, detail)


def _sentence(root: type[BaseModel], detail: ErrorDetails) -> str:
    key, model, field = _walk(root, detail["loc"])
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "seam":
        return f"{key}: {detail['msg']}" if key else detail["msg"]
    if kind == "extra_forbidden":
        known = sorted(model.model_fields) if model else []
        close = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1)
        hint = f"{close[0]}" if close else f"one of {', '.join(known)}"
        return f"{key}: unknown key found, {hint} expected"
    if kind == "union_tag_not_found":
        return f"{key}.kind: nothing found, {_tags(field)} expected"
    if kind == "union_tag_invalid":
        return f"{key}.kind: {json.dumps(context['tag'])} found, {context['expected_tags']} expected".replace("'", '"')
    found = "nothing" if kind == "missing" else _short(detail["input"])
    return f"{key}: {found} found, {_expected(kind, context, detail['msg'], field)} expected"


def _expected(kind: str, context: dict[str, Any], message: str, field: FieldInfo | None) -> str:
    if kind == "literal_error":
        return str(context["expected"]).replace("'", '"')
    if kind == "missing":
        what = (_choices(field.annotation) if field else "") or "a value"
    elif kind == "greater_than":
        what = f"a number greater than {context['gt']:g}"
    elif kind == "string_pattern_mismatch":
        what = f"a string that matches {context['pattern']}"
    else:
        what = _KINDS.get(kind) or f"something else ({message})"
    examples = field.examples if field else None
    return f"{what} such as {json.dumps(examples[0])}" if examples else what


def _walk(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, type[BaseModel] | None, FieldInfo | None]:
    """The dotted key of an error without the tags of unions, the model it lies in, and the field if the model has it."""
    keys: list[str] = []
    inside: type[BaseModel] | None = model
    field: FieldInfo | None = None
    steps = iter(loc)
    for step in steps:
        keys.append(str(step))
        if inside is None or isinstance(step, int):
            continue
        field = inside.model_fields.get(step)
        if field is None:
            break
        models = list(_models(field.annotation))
        if field.discriminator and len(keys) < len(loc):
            tag = next(steps)
            models = [each for each in models if tag in get_args(each.model_fields[str(field.discriminator)].annotation)]
        if not models:
            break
        inside = models[0]
    inner = [str(step) for step in steps]
    return ".".join(keys + inner), inside, None if inner else field


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _choices(annotation: Any) -> str:
    literals = [part for part in get_args(annotation) if isinstance(part, str)]
    if literals:
        return " or ".join(json.dumps(part) for part in literals)
    if annotation is bool:
        return "true or false"
    return "a table" if any(_models(annotation)) else ""


def _tags(field: FieldInfo | None) -> str:
    if field is None:
        return "one of the kinds"
    tags = [tag for each in _models(field.annotation) for tag in get_args(each.model_fields[str(field.discriminator)].annotation)]
    return " or ".join(json.dumps(tag) for tag in tags)


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
