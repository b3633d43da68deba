"""openenv's white-box loop, played in its own Python as a trainer would: its rollout function, its session adapter, its model client.

Only the two ends are ours: where its client would send a request to an engine, and where its session would step an environment, the suite
is asked.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

from lines import Asker  # type: ignore[import-not-found]  # stands beside this file where it is run

# openenv and its dependencies are only in the Python that runs this file.
from openai.types.chat import ChatCompletion
from openenv.core.client_types import StepResult  # type: ignore[import-not-found]
from openenv.core.env_server.mcp_types import Tool  # type: ignore[import-not-found]
from openenv.core.harness import (  # type: ignore[import-not-found]
    HarnessRunLimits,
    MCPHarnessAdapter,
    ResourceSessionFactory,
    StepEnvSessionAdapter,
    ToolResult,
    VerifyResult,
    build_harness_rollout_func,
)
from openenv.core.harness.collect import build_model_step  # type: ignore[import-not-found]
from openenv.core.llm_client import OpenAIClient  # type: ignore[import-not-found]


class Environment:
    """The suite's environment as a client of openenv's."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def reset(self, **_: Any) -> Any:
        """The beginning; there is nothing to observe."""
        return StepResult(observation=None, reward=None, done=False)

    def step(self, action: tuple[str, dict[str, Any]]) -> Any:
        """Make a call."""
        result = self._asker.ask("call", name=action[0], arguments=action[1])
        return StepResult(observation=result, reward=result["reward"], done=result["done"])


class Sessions(ResourceSessionFactory):  # type: ignore[misc]
    """Sessions on that environment, each through openenv's own session adapter."""

    def __init__(self, asker: Asker, request: dict[str, Any]) -> None:
        self._asker = asker
        self._request = request

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> Any:
        """A session."""
        return StepEnvSessionAdapter(
            Environment(self._asker),
            task=task,
            seed=seed,
            episode_id=episode_id,
            tool_specs=[Tool(**tool) for tool in self._request["tools"]],
            action_builder=lambda name, arguments: (name, arguments),
            initial_messages_builder=lambda _result, _task: self._request["messages"],
            tool_result_builder=_tool_result,
            verify_builder=lambda *_: VerifyResult(env_reward=self._asker.ask("grade")),
        )


class Keeping(MCPHarnessAdapter):  # type: ignore[misc]
    """openenv's loop; what it returned is kept, for its rollout function passes only a part of it on."""

    rollout: Any = None

    def run_white_box(self, model_step: Any, session: Any, limits: Any = None) -> Any:
        """As openenv's."""
        self.rollout = super().run_white_box(model_step, session, limits)
        return self.rollout


def play(asker: Asker, request: dict[str, Any]) -> dict[str, Any]:
    """One episode, as its rollout function gives it to a trainer; ``failed`` is all that is left of one that raised."""
    keeping = Keeping()
    rollout_func = build_harness_rollout_func(
        session_factory=Sessions(asker, request),
        harness_adapter=keeping,
        model_step_builder=lambda _trainer, _session: model_step(asker),
        limits=HarnessRunLimits(
            max_turns=request["max_turns"],
            max_tool_calls_per_turn=request["max_calls_per_turn"],
            max_total_tool_calls=request["max_calls"],
        ),
    )
    try:
        given = rollout_func(["task"], None)
    except Exception as error:  # noqa: BLE001 - it is the finding
        return {"failed": f"{type(error).__name__}: {error}"}
    rollout = keeping.rollout
    return {
        "messages": rollout.messages,
        "done": rollout.done,
        "reward": given["env_reward"][0],
        "metrics": rollout.metrics,
        "trace": [{"name": entry.tool_name, "arguments": entry.arguments} for entry in rollout.tool_trace],
        "prompt_ids": given["prompt_ids"][0],
        "sampled_ids": given["completion_ids"][0],
        "logprobs": given["logprobs"][0],
    }


def model_step(asker: Asker) -> Any:
    """openenv's own step over its own client, with the engine's ids beside the reply; its step has none."""
    replies: list[dict[str, Any]] = []

    async def create(*, messages: Any, tools: Any = (), **_: Any) -> ChatCompletion:
        reply = asker.ask("model", messages=messages, tools=tools or [])
        replies.append(reply)
        message = {"role": "assistant", "content": reply["text"], "tool_calls": reply["calls"] or None}
        return ChatCompletion.construct(choices=[{"index": 0, "finish_reason": "stop", "message": message}])

    inner = build_model_step(client())
    client()._client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))  # noqa: SLF001 - its only door

    def step(messages: Any, tools: Any, sampling: Any) -> Any:
        result = inner(messages, tools, sampling)
        for name, ids in (("prompt_ids", "prompt_ids"), ("completion_ids", "sampled_ids"), ("logprobs", "logprobs")):
            setattr(result, name, list(replies[-1][ids]))
        return result

    return step


@functools.cache
def client() -> Any:
    """Its client; no request leaves it."""
    return OpenAIClient("http://127.0.0.1", 1, "model")


def _tool_result(_name: str, _arguments: dict[str, Any], result: Any, _state: Any) -> Any:
    seen = result.observation
    return ToolResult(data=seen["data"], done=bool(result.done), metadata={"reward": result.reward}, error=seen["error"])


if __name__ == "__main__":
    Asker().serve({"play": play})
