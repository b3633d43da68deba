"""The dialects harnesses speak: each turns a request into one for the engine, and the engine's reply into the harness's."""

from pytest_harness.capture.dialects.base import Dialect
from pytest_harness.capture.dialects.gemini import GeminiDialect
from pytest_harness.capture.dialects.messages import MessagesDialect
from pytest_harness.capture.dialects.responses import ResponsesDialect

TRANSLATED: tuple[Dialect, ...] = (MessagesDialect(), ResponsesDialect(), GeminiDialect())
"""The dialects other than chat completions, which the engine itself speaks."""
