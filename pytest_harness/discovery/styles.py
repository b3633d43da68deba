"""Config files that harnesses and their forks have in common, as channels. One is tried only where the harness's files speak of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_harness.discovery.channels import Channel

_PROVIDER = "capture"


@dataclass(frozen=True)
class Style:
    """One kind of config file: words that its readers have in their files, all of them, and how it is written for a command."""

    words: tuple[str, ...]
    channel: Callable[[str], Channel]


def _models_json(command: str) -> Channel:
    provider = {"baseUrl": "{url}/v1", "api": "openai-completions", "apiKey": "{key}", "models": [{"id": "{model}"}]}
    path = f"~/.{command}/agent/models.json"
    return Channel(path, files={path: _json({"providers": {_PROVIDER: provider}})}, arguments=f"--provider {_PROVIDER} --model {{model}}")


def _opencode_json(command: str) -> Channel:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": _PROVIDER,
        "options": {"baseURL": "{url}/v1", "apiKey": "{key}"},
        "models": {"{model}": {"name": "{model}"}},
    }
    model = f"{_PROVIDER}/{{model}}"
    told = {"autoupdate": False, "share": "disabled", "permission": "allow", "model": model, "small_model": model}
    path = f"~/.config/{command}/{command}.json"
    return Channel(path, files={path: _json({**told, "provider": {_PROVIDER: provider}})})


def _models_yaml(command: str) -> Channel:
    path = f"~/.{command}/agent.yaml"
    lines = (
        "name: capture",
        "version: 0.0.1",
        "schema: v1",
        "models:",
        "  - name: capture",
        "    provider: openai",
        '    model: "{model}"',
        '    apiBase: "{url}/v1"',
        '    apiKey: "{key}"',
        "    roles: [chat]",
        "    capabilities: [tool_use]",
    )
    return Channel(path, files={path: "".join(f"{line}\n" for line in lines)}, arguments=f"--config {path}")


def _settings_json(command: str) -> Channel:
    path = f"~/.{command}/settings.json"
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    env = {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "{key}", "GEMINI_MODEL": "{model}"}
    return Channel(path, env=env, files={path: _json(settings)})


def _model_providers(command: str) -> Channel:
    provider = f'{{name="{_PROVIDER}",base_url="{{url}}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
    path = f"~/.{command}/config.toml"
    text = f'model = "{{model}}"\nmodel_provider = "{_PROVIDER}"\n[model_providers]\n{_PROVIDER} = {provider}\n'
    return Channel(path, env={"OPENAI_API_KEY": "{key}"}, files={path: text})


def _model_toml(command: str) -> Channel:
    path = f"~/.{command}/config.toml"
    model = '[model."{model}"]\nname = "{model}"\nmodel = "{model}"\nbase_url = "{url}/v1"\n'
    text = f'[models]\ndefault = "{{model}}"\n{model}env_key = "OPENAI_API_KEY"\napi_backend = "chat_completions"\n'
    return Channel(path, env={"OPENAI_API_KEY": "{key}"}, files={path: text})


STYLES = (
    Style(("models.json", "openai-completions", "baseUrl"), _models_json),
    Style(("ai-sdk/openai-compatible", "baseURL", "small_model"), _opencode_json),
    Style(("apiBase", "config.yaml"), _models_yaml),
    Style(("selectedType", "gemini-api-key"), _settings_json),
    Style(("model_providers", "wire_api"), _model_providers),
    Style(("api_backend", "env_key"), _model_toml),
)


def styles_of(found: frozenset[str], command: str) -> tuple[Channel, ...]:
    """The channels of all styles whose words were all found in the harness's files."""
    return tuple(style.channel(command) for style in STYLES if found.issuperset(style.words))


def style_words() -> frozenset[str]:
    """All words to look for."""
    return frozenset(word for style in STYLES for word in style.words)


def _json(document: Any) -> str:
    return json.dumps(document, indent=1) + "\n"
