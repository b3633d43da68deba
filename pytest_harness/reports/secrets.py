"""Texts that are secrets by their shape, whoever's they are. What we hand out ourselves is redacted when it is recorded."""

from __future__ import annotations

import re
from typing import Any

SHAPES = {
    "an API key": re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\bAIza[0-9A-Za-z_-]{30,}|\bAKIA[0-9A-Z]{16}\b"),
    "a token": re.compile(r"\b(?:gh[opsu]_|github_pat_|glpat-|npm_|pypi-|hf_|xox[abp]-)[A-Za-z0-9_-]{16,}"),
    "a bearer token": re.compile(r"(?i)\bbearer [A-Za-z0-9._~+/-]{16,}"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]+-----END [A-Z ]*PRIVATE KEY-----)?"),
    "a password in an address": re.compile(r"(?<=://)[^/\s:@]+:[^/\s:@]+(?=@)"),
}
"""What it is -> how it looks."""


def secret_in(text: str) -> str | None:
    """What kind of secret the text holds; None if it holds none."""
    return next((what for what, shape in SHAPES.items() if shape.search(text)), None)


def masked(text: str) -> str:
    """The text with a note in place of each secret."""
    for what, shape in SHAPES.items():
        text = shape.sub(f"<redacted: {what}>", text)
    return text


def masked_document(value: Any) -> Any:
    """A JSON document with a note in place of each secret in its texts."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: masked_document(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [masked_document(each) for each in value]
    return value
