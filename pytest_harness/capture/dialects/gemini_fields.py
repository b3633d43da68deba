"""How Gemini's requests are read: lower camel case and snake case say the same, null says what absence says, as in protobuf's JSON form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pytest_harness.capture.dialects.base import RefusalError
from pytest_harness.capture.dialects.neutral import Json, expect

_UNDERSCORE = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")


def fields(value: object, where: str) -> Json:
    """The fields of one message under their camel-case names, nulls left out; what stands inside them is untouched.

    Raises RefusalError if the value is no object, or gives a field under both of its names.
    """
    read: Json = {}
    for name, content in expect(value, dict, where).items():
        camel = camel_case(name)
        if content is None:
            continue
        if camel in read:
            raise RefusalError(f"{where}.{camel} is given twice, in camel case and in snake case; give it once", f"{where}.{camel}")
        read[camel] = content
    return read


def camel_case(name: str) -> str:
    """``maxOutputTokens`` for ``max_output_tokens``; a name without an inner underscore is left as it is."""
    return _UNDERSCORE.sub(lambda found: found[1].upper(), name) if "_" in name else name


def whole_number(value: object, where: str) -> int:
    """An integer, which protobuf's JSON form may write as 64, 64.0 or "64". Raises RefusalError."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return expect(value, int, where)


def strings(value: object, where: str) -> list[str]:
    """A list of strings. Raises RefusalError."""
    return [expect(item, str, f"{where}[{place}]") for place, item in enumerate(expect(value, list, where))]


def refuse_fields(given: Json, names: Iterable[str], where: str) -> None:
    """Raise RefusalError if one of these fields is given: what it asks for cannot be asked of the engine."""
    for name in names:
        if given.get(name):
            path = f"{where}.{name}" if where else name
            raise RefusalError(f"{path} is not supported: chat completions, as which the request goes to the engine, cannot say it", path)


def one_of(value: Any, allowed: Iterable[str], where: str) -> str:
    """An enum's name, in upper case whatever its case was. Raises RefusalError."""
    names = tuple(allowed)
    name = expect(value, str, where).upper()
    if name not in names:
        raise RefusalError(f"Invalid value at '{where}': \"{value}\"; it must be one of {', '.join(names)}", where)
    return name
