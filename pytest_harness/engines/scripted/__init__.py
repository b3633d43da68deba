"""An engine with a script instead of weights: a real tokenizer and chat template behind vLLM's chat-completions route.

It is stateless and deterministic: the same request gets the same ids, logprobs and text; only response ids, tool-call ids and the
``created`` time differ from request to request, as they do on a real engine. Its sampling is the one place in this project where text
becomes ids: the engine's own ids, made before anything was asked to capture them.
"""

from pytest_harness.engines.scripted.app import ScriptedEngine
from pytest_harness.engines.scripted.faults import Fault
from pytest_harness.engines.scripted.script import OtherCall, Script, ScriptError, ShellTool, Step

__all__ = ["Fault", "OtherCall", "Script", "ScriptError", "ScriptedEngine", "ShellTool", "Step"]
