"""Writes the JSON Schemas of evidence and report beside this file, from the models. Run it after a change of a model."""

import json
from pathlib import Path

from pytest_harness.evidence import Call, Manifest
from pytest_harness.reports.model import Report

SCHEMAS = {"manifest": Manifest, "call": Call, "report": Report}


def schema(name: str) -> str:
    """The text of ``<name>.schema.json``."""
    model = SCHEMAS[name].model_json_schema(mode="serialization")
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **model}, indent=1) + "\n"


if __name__ == "__main__":
    for name in SCHEMAS:
        (Path(__file__).parent / f"{name}.schema.json").write_text(schema(name), encoding="utf-8")
