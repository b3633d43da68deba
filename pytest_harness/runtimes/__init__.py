"""The tools of the runtime suite: white-box runtimes behind one adapter, a scripted model, and a scripted environment.

What is judged is in ``conformance/runtime``; this package knows neither pytest nor requirements. A runtime is never trusted: whatever it
does ends as ``Broken``, ``NotExercised``, or a pass.
"""

from pytest_harness.runtimes.adapter import (
    Environment,
    Episode,
    Limits,
    Message,
    Model,
    ModelStep,
    Result,
    Runtime,
    RuntimeAdapter,
    Tool,
    ToolCall,
    TracedCall,
    load_adapter,
)

__all__ = [
    "Environment",
    "Episode",
    "Limits",
    "Message",
    "Model",
    "ModelStep",
    "Result",
    "Runtime",
    "RuntimeAdapter",
    "Tool",
    "ToolCall",
    "TracedCall",
    "load_adapter",
]
