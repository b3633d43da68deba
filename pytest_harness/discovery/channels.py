"""The ways by which a harness may learn where its model is: environment variables and config files, as data.

Every harness is tried with the variables of the vendors' own SDKs, and with those of its own that its files name: whatever looks like a
base URL, with the key and the model's name that begin with the same words. Config files are tried where its files speak of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_harness.discovery.watch import new_keys
from pytest_harness.seams.placeholders import fill

OWN = 24
"""At most so many base URLs of a harness's own are tried, each on its port."""

_URL = re.compile(r"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*?)_(?:API_)?(BASE_URL|API_BASE|BASE_URI|API_URL|API_HOST|ENDPOINT|HOST|URL)")
_KEY_ENDINGS = ("API_KEY", "AUTH_TOKEN", "KEY", "TOKEN")
_MODEL_ENDINGS = ("MODEL", "MODEL_NAME")
_WITHOUT_VERSION = re.compile(r"ANTHROPIC|CLAUDE|GEMINI|GOOGLE|OLLAMA")
_NO_MODELS = re.compile(
    r"^DEFAULT_|OTEL|OTLP|SENTRY|POSTHOG|LANGFUSE|LANGSMITH|LANGCHAIN|PROXY|REGISTRY|DOCKER|AWS|AZURE|REDIS|MONGO|POSTGRES|GITHUB|GITLAB|NPM|PYPI|SLACK"
    r"|JIRA|SEARCH|TAVILY|FIRECRAWL|EMBED|WEBHOOK|TELEMETRY|TRACING|LOGGING|S3_|OAUTH|AUTH_|WEAVIATE|QDRANT|DATABASE|MCP_|HF_|LOGFIRE"
)

_TOO_PLAIN = frozenset({"API", "DEFAULT", "GH", "HTTP", "HTTPS", "SERVER", "BASE"})


@dataclass(frozen=True)
class Channel:
    """One way. Its strings have the placeholders ``{url}``, ``{key}`` and ``{model}`` of a seam row, which it becomes part of."""

    name: str
    """The variable that takes the base URL, or the config file."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    arguments: str = ""
    """What the command needs beside, such as the name of a provider that stands in the file."""

    @property
    def key_name(self) -> str | None:
        """The variable that takes the key; None where a file has it."""
        return next((name for name, value in self.env.items() if value == "{key}"), None)


@dataclass(frozen=True)
class Setting:
    """What a run with several channels at once gets: which channel each port is, and which name each key has."""

    env: dict[str, str]
    files: dict[str, str]
    ports: dict[int, str]
    keys: dict[str, str]
    values: dict[str, str | int]
    """What the placeholders of a command line stand for: those of the first channel."""


def rendered(channels: Sequence[Channel], *, first_port: int, model: str) -> Setting:
    """The channels filled in, each with a port of its own and each variable for a key with its own key."""
    ports = {first_port + number: channel.name for number, channel in enumerate(channels)}
    keys = new_keys(channel.key_name or channel.name for channel in channels)
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    of_each: list[dict[str, str | int]] = []
    for port, channel in zip(ports, channels, strict=True):
        values = {"url": f"http://127.0.0.1:{port}", "key": keys[channel.key_name or channel.name], "model": model}
        of_each.append({**values})
        env |= fill(dict(channel.env), values)
        files |= {path: str(fill(text, values)) for path, text in channel.files.items()}
    return Setting(env, files, ports, keys, of_each[0])


VENDORS = (
    Channel("OPENAI_BASE_URL", {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "{key}", "OPENAI_MODEL": "{model}"}),
    Channel("OPENAI_API_BASE", {"OPENAI_API_BASE": "{url}/v1", "OPENAI_API_KEY": "{key}", "OPENAI_MODEL": "{model}"}),
    Channel("ANTHROPIC_BASE_URL", {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "{key}", "ANTHROPIC_MODEL": "{model}"}),
    Channel("ANTHROPIC_API_BASE", {"ANTHROPIC_API_BASE": "{url}", "ANTHROPIC_API_KEY": "{key}"}),
    Channel("GOOGLE_GEMINI_BASE_URL", {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "{key}", "GEMINI_MODEL": "{model}"}),
    Channel("LLM_BASE_URL", {"LLM_BASE_URL": "{url}/v1", "LLM_API_KEY": "{key}", "LLM_MODEL": "{model}"}),
)
"""The variables of the vendors' SDKs, and one that several harnesses have made up alike."""

_SWITCHES: tuple[tuple[str, str], ...] = (
    (r"LITELLM_LOCAL_MODEL_COST_MAP", "True"),
    (r"\w+_COST_TRACKING", "ignore_errors"),
    (r"\w+_CONFIGURED", "true"),
    (r"\w+_TRUST_WORKSPACE", "true"),
    (r"\w+_OFFLINE", "1"),
    (r"(\w+_)?DISABLE_(\w+_)?(TELEMETRY|ANALYTICS|NONESSENTIAL_TRAFFIC|AUTO_?UPDATE|MODELS_FETCH|LAZY_INSTALLS)\w*", "1"),
    (r"\w+_(TELEMETRY|ANALYTICS)_DISABLED", "1"),
    (r"\w+_NO_AUTO_UPDATE|\w+_NO_UPDATE_CHECK|NO_VERSION_UPDATE", "1"),
    (r"IS_SANDBOX", "1"),
)
"""Variables by which harnesses are told that nobody is there to answer and no network to ask, and the value that they take."""


def channels_of(words: frozenset[str]) -> tuple[Channel, ...]:
    """Those that all harnesses are tried with, and its own: ``words`` are the names in capitals that stand in its files."""
    known = {channel.name for channel in VENDORS}
    own = [channel for word in sorted(words - known) if (channel := _own(word, words)) is not None]
    return (*VENDORS, *own[:OWN])


def switches_of(words: frozenset[str]) -> dict[str, str]:
    """Those of the known switches that its files name, with the value that each takes."""
    return {word: value for word in sorted(words) for pattern, value in _SWITCHES if re.fullmatch(pattern, word)}


def _own(word: str, words: frozenset[str]) -> Channel | None:
    match = _URL.fullmatch(word)
    if match is None or _NO_MODELS.search(word) or match[1] in _TOO_PLAIN:
        return None
    stem = match[1]
    key = next((name for ending in _KEY_ENDINGS if (name := f"{stem}_{ending}") in words), None)
    model = next((name for ending in _MODEL_ENDINGS if (name := f"{stem}_{ending}") in words), None)
    if key is None and model is None:
        return None  # an address of something else
    env = {word: "{url}" if _WITHOUT_VERSION.search(word) else "{url}/v1"}
    env |= {key: "{key}"} if key else {}
    env |= {model: "{model}"} if model else {}
    return Channel(word, env)
