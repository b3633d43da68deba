"""What the tests of the engines share: a tool, a request, a served engine."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from pytest_harness.engines.scripted import Script, ScriptedEngine
from pytest_harness.serving import BackgroundServer

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command <in> a shell & say what it printed",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


class Client(httpx.Client):
    """Talks to one engine; ``engine`` is the application, ``server`` what serves it."""

    engine: ScriptedEngine
    server: BackgroundServer

    def chat(self, **fields: Any) -> httpx.Response:
        """POST a chat request: the default conversation and tool, with ids and logprobs, changed by ``fields``; None removes one."""
        body: dict[str, Any] = {
            "model": "scripted",
            "messages": [{"role": "user", "content": "Write 42 to answer.txt."}],
            "tools": [BASH],
            "logprobs": True,
            "return_token_ids": True,
        }
        body = {key: value for key, value in {**body, **fields}.items() if value is not None}
        return self.post("/v1/chat/completions", json=body)

    def chunks(self, **fields: Any) -> list[dict[str, Any]]:
        """The chunks of a streamed reply, which must end in [DONE]."""
        reply = self.chat(stream=True, **fields)
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"].startswith("text/event-stream")
        events = reply.text.split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""]
        return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


Serve = Callable[..., Client]


@contextmanager
def serving() -> Iterator[Serve]:
    """Serves scripts; all servers end with it."""
    with ExitStack() as stack:

        def start(*steps: tuple[str, list[str]], script: Script | None = None, **options: Any) -> Client:
            script = script or Script.for_seam(steps or [("", ["echo 42 > answer.txt"]), ("Done.", [])], shell_tool="bash")
            engine = ScriptedEngine(script, **options)
            server = stack.enter_context(BackgroundServer(engine))
            client = stack.enter_context(Client(base_url=server.listen().url, timeout=10))
            client.engine, client.server = engine, server
            return client

        yield start


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a script (one step that runs a command and one that ends, unless told otherwise) and gives a client."""
    with serving() as start:
        yield start


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client of the default script, shared by the tests of a module."""
    with serving() as start:
        yield start()
