"""One vLLM for all that is compared with it, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pytest_harness.engines.scripted.tokenizer import ChatTokenizer
from pytest_harness.engines.vllm import EngineError, Serving, cpu_command, serve
from pytest_harness.engines.vllm.server import CPU_FLAGS, FLAGS
from pytest_harness.provision import Cache, ProvisionError
from pytest_harness.provision.vllm import obtain_vllm

from .comparison import Decode
from .corpus import MAX_MODEL_LEN, MODEL
from .engines import Engines

OWN_FLAGS = (f"--max-model-len={MAX_MODEL_LEN}",)


@pytest.fixture(scope="session")
def vllm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A real vLLM with the tiny model; it is installed if it is not there."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(what: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{what}", flush=True)

    with ExitStack() as stack:
        try:
            found = obtain_vllm(Cache(), say)
            log = tmp_path_factory.mktemp("vllm") / "vllm.log"
            say(f"starting vLLM {found.version} with the tiny model; its log is {log}")
            serving = stack.enter_context(
                serve(cpu_command(found.python, found.model), name=MODEL, log=log, flags=(*FLAGS, *CPU_FLAGS, *OWN_FLAGS))
            )
        except (ProvisionError, EngineError) as error:
            pytest.exit(f"there is no vLLM to compare with: {error}; `harness-conformance doctor --install-vllm` installs one", 1)
        yield serving


@pytest.fixture(scope="session")
def engines(vllm: Serving) -> Iterator[Engines]:
    """The scripted engine and vLLM, side by side."""
    with ExitStack() as stack:
        yield Engines(vllm, stack)


@pytest.fixture(scope="session")
def decode() -> Decode:
    """The text of ids, as far as a reply would show it."""
    tokenizer = ChatTokenizer.bundled()
    return lambda ids: "".join(tokenizer.decode_pieces(ids))
