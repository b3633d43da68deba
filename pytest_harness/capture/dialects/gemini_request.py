"""A generateContent request as chat completions.

What has no place there is refused with its name. ``safetySettings``, ``labels``, ``store`` and ``serviceTier`` change nothing that is
sampled here and are let pass. Let pass with a note: fields that Gemini itself does not know, ``mediaResolution``, and

``thinkingConfig``: ``thinkingLevel`` becomes ``reasoning_effort``. ``thinkingBudget`` is let pass with a note: chat completions have no
such bound, and a harness that sends its default must run. ``includeThoughts`` false keeps thoughts out of the reply; they still travel
in our signature, so that an echo brings them back.

``allowedFunctionNames``: one name with mode ANY is a named tool choice. Of several the engine is offered just these. Mode VALIDATED is
AUTO with a note: chat completions cannot ask that only what is called obeys its schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_harness.capture.dialects.base import RefusalError
from pytest_harness.capture.dialects.gemini_contents import messages_of, system_message
from pytest_harness.capture.dialects.gemini_fields import fields, one_of, refuse_fields, strings, whole_number
from pytest_harness.capture.dialects.gemini_schema import json_schema
from pytest_harness.capture.dialects.neutral import Json, expect, function_tool, named_choice, read_object

_REFUSED = ("cachedContent",)
_HARMLESS = ("safetySettings", "labels", "store", "serviceTier")
_REFUSED_CONFIG = (
    "responseFormat",
    "speechConfig",
    "imageConfig",
    "routingConfig",
    "modelSelectionConfig",
    "continuationToken",
    "enableAffectiveDialog",
    "translationConfig",
    "audioTranscriptionConfig",
)
_KNOWN = frozenset({"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "model", *_HARMLESS})
_EFFORTS = ("MINIMAL", "LOW", "MEDIUM", "HIGH", "THINKING_LEVEL_UNSPECIFIED")
_MODES = ("AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED")


@dataclass(frozen=True)
class Asked:
    """A request for the engine, and what the client asked to see of the reply."""

    chat: Json
    thoughts: bool
    logprobs: bool
    notes: tuple[str, ...]


def read_request(body: bytes) -> Asked:
    """What a generateContent body asks for; a countTokens body may hold one as ``generateContentRequest``. Raises RefusalError."""
    request = fields(read_object(body), "request")
    if "generateContentRequest" in request:
        request = fields(request["generateContentRequest"], "generateContentRequest")
    refuse_fields(request, _REFUSED, "")
    notes = [f"{name} is no field of Gemini's that is known here" for name in request if name not in _KNOWN]
    messages = messages_of(request.get("contents", []), notes)
    if "systemInstruction" in request:
        messages.insert(0, system_message(request["systemInstruction"]))
    chat: Json = {"messages": messages}
    config = fields(request.get("generationConfig", {}), "generationConfig")
    thinking = fields(config.get("thinkingConfig", {}), "generationConfig.thinkingConfig")
    chat |= _sampling(config) | _response_format(config) | _effort(thinking)
    chat |= _tools(request.get("tools", []), fields(request.get("toolConfig", {}), "toolConfig"), notes)
    if "thinkingBudget" in thinking:
        notes.append("generationConfig.thinkingConfig.thinkingBudget: chat completions have no such bound")
    if "mediaResolution" in config:
        notes.append("generationConfig.mediaResolution: chat completions have no such setting")
    return Asked(chat, thinking.get("includeThoughts") is not False, "logprobs" in chat, tuple(notes))


def _sampling(config: Json) -> Json:
    where = "generationConfig"
    refuse_fields(config, _REFUSED_CONFIG, where)
    modalities = strings(config.get("responseModalities", []), f"{where}.responseModalities")
    if any(modality.upper() not in ("TEXT", "MODALITY_UNSPECIFIED") for modality in modalities):
        raise RefusalError(f"{where}.responseModalities: the model answers in text only; leave it out", f"{where}.responseModalities")
    chat: Json = {}
    for name, field in (
        ("temperature", "temperature"),
        ("topP", "top_p"),
        ("presencePenalty", "presence_penalty"),
        ("frequencyPenalty", "frequency_penalty"),
    ):
        if name in config:
            chat[field] = expect(config[name], float, f"{where}.{name}")
    for name, field in (("topK", "top_k"), ("maxOutputTokens", "max_tokens"), ("candidateCount", "n"), ("seed", "seed")):
        if name in config:
            chat[field] = whole_number(config[name], f"{where}.{name}")
    stop = strings(config.get("stopSequences", []), f"{where}.stopSequences")
    if stop:
        chat["stop"] = stop
    if config.get("responseLogprobs") is True:
        chat["logprobs"] = True
        chat["top_logprobs"] = whole_number(config.get("logprobs", 0), f"{where}.logprobs")
    elif "logprobs" in config:
        raise RefusalError(f"{where}.logprobs is only allowed with {where}.responseLogprobs true", f"{where}.logprobs")
    return chat


def _response_format(config: Json) -> Json:
    where = "generationConfig"
    kind = expect(config.get("responseMimeType", "text/plain"), str, f"{where}.responseMimeType")
    given = [name for name in ("responseSchema", "responseJsonSchema") if name in config]
    if len(given) > 1:
        raise RefusalError(f"{where}.responseSchema and {where}.responseJsonSchema are both given; give one", f"{where}.responseSchema")
    if kind == "text/plain":
        if given:
            raise RefusalError(f"{where}.{given[0]} is only allowed with {where}.responseMimeType application/json", f"{where}.{given[0]}")
        return {}
    if kind != "application/json":
        raise RefusalError(
            f"{where}.responseMimeType {kind} is not supported; use text/plain or application/json", f"{where}.responseMimeType"
        )
    if not given:
        return {"response_format": {"type": "json_object"}}
    path = f"{where}.{given[0]}"
    value = config[given[0]]
    schema = json_schema(value, path) if given[0] == "responseSchema" else expect(value, dict, path)
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": schema}}}


def _effort(thinking: Json) -> Json:
    if "thinkingLevel" not in thinking:
        return {}
    level = one_of(thinking["thinkingLevel"], _EFFORTS, "generationConfig.thinkingConfig.thinkingLevel")
    return {} if level.endswith("UNSPECIFIED") else {"reasoning_effort": level.lower()}


# --- tools -------------------------------------------------------------------------------------------------------------------------------


def _tools(given: object, config: Json, notes: list[str]) -> Json:
    where = "toolConfig.functionCallingConfig"
    functions = _functions(given)
    calling = fields(config.get("functionCallingConfig", {}), where)
    mode = one_of(calling.get("mode", "AUTO"), _MODES, f"{where}.mode")
    allowed = strings(calling.get("allowedFunctionNames", []), f"{where}.allowedFunctionNames")
    if allowed and mode not in ("ANY", "VALIDATED"):
        raise RefusalError(f"{where}.allowedFunctionNames is only allowed with mode ANY or VALIDATED", f"{where}.allowedFunctionNames")
    names = [tool["function"]["name"] for tool in functions]
    for name in allowed:
        if name not in names:
            raise RefusalError(f'{where}.allowedFunctionNames: "{name}" is not declared in tools', f"{where}.allowedFunctionNames")
    choice: Any = {"ANY": "required", "NONE": "none"}.get(mode, "auto")
    if mode == "ANY" and len(set(allowed)) == 1:
        choice = named_choice(allowed[0])
    elif allowed:  # chat completions can allow all tools or one; a client that allows some shows the model just these
        functions = [tool for tool in functions if tool["function"]["name"] in allowed]
    if not functions:
        if mode == "ANY":
            raise RefusalError(f"{where}.mode ANY needs functionDeclarations in tools", f"{where}.mode")
        return {}
    if mode == "VALIDATED":
        notes.append(f"{where}.mode VALIDATED: chat completions cannot ask that calls obey their schema; told as AUTO")
    return {"tools": functions, "tool_choice": choice} if "mode" in calling else {"tools": functions}


def _functions(given: object) -> list[Json]:
    functions: list[Json] = []
    for place, tool in enumerate(expect(given, list, "tools")):
        where = f"tools[{place}]"
        for kind, value in fields(tool, where).items():
            if kind != "functionDeclarations":
                raise RefusalError(
                    f"{where}.{kind} is a tool that Google's server runs; it is not supported here, only functionDeclarations are", where
                )
            declarations = expect(value, list, f"{where}.{kind}")
            functions += [_function(declaration, f"{where}.{kind}[{n}]") for n, declaration in enumerate(declarations)]
    return functions


def _function(declaration: object, where: str) -> Json:
    read = fields(declaration, where)
    name = expect(read.get("name", ""), str, f"{where}.name")
    if not name:
        raise RefusalError(f"{where}.name: Name cannot be empty", f"{where}.name")
    if read.get("behavior", "BLOCKING") not in ("BLOCKING", "UNSPECIFIED"):
        raise RefusalError(f"{where}.behavior {read['behavior']} is not supported; only BLOCKING functions are", f"{where}.behavior")
    description = expect(read["description"], str, f"{where}.description") if "description" in read else None
    tool = function_tool(name, description, _schema(read, "parameters", where))
    response = _schema(read, "response", where)
    if response is not None:
        tool["function"]["response"] = response
    return tool


def _schema(read: Json, name: str, where: str) -> Json | None:
    """A schema that is given in Google's dialect or, under ``…JsonSchema``, as JSON Schema."""
    plain = f"{name}JsonSchema"
    if name in read and plain in read:
        raise RefusalError(f"{where}.{name} and {where}.{plain} are both given; give one", f"{where}.{name}")
    if plain in read:
        return expect(read[plain], dict, f"{where}.{plain}")
    return json_schema(read[name], f"{where}.{name}") if name in read else None
