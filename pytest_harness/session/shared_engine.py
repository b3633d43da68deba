"""Starts an engine that all rollouts of a run share, and tells how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from pytest_harness.session.plan import Plan
from pytest_harness.session.progress import Progress

FOLDER = ".engine"


def start_vllm(config: pytest.Config, plan: Plan, progress: Progress) -> Callable[[], None]:
    """Start vLLM for this run; it is stopped when pytest ends. What is returned waits until it answers: the workers start meanwhile.

    Both raise pytest.UsageError, in one sentence, if it does not start.
    """
    from pytest_harness.engines.vllm import EngineError  # noqa: PLC0415 (most runs need none of this)
    from pytest_harness.provision import ProvisionError  # noqa: PLC0415
    from pytest_harness.rollouts.engines import LOG, begun_vllm, shared_vllm  # noqa: PLC0415

    assert plan.pool is not None
    stack = ExitStack()
    config.add_cleanup(stack.close)

    @contextmanager
    def told() -> Iterator[None]:
        try:
            with progress.waiting("starting vLLM"):
                yield
        except (EngineError, ProvisionError) as error:
            raise pytest.UsageError(f"--engine vllm: {error}") from None

    def wait() -> None:
        with told():
            answers()

    log, model = plan.evidence_dir.absolute() / FOLDER / LOG, config.getoption("harness_model")
    with told():
        if model is None:
            plan.pool.engine, answers = stack.enter_context(begun_vllm(log, progress.say))
            return wait
        plan.pool.engine = stack.enter_context(shared_vllm(log, progress.say, model=model))
        return lambda: None
