"""A real vLLM, started by us: the truth that the scripted engine is held to."""

from pytest_harness.engines.vllm.server import EngineError, Serving, cpu_command, own_command, serve
from pytest_harness.engines.vllm.steering import Steering

__all__ = ["EngineError", "Serving", "Steering", "cpu_command", "own_command", "serve"]
