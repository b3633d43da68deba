"""What the sandbox tests share."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from pytest_harness.sandboxes.bubblewrap import Sandbox
from pytest_harness.sandboxes.layout import Layout
from pytest_harness.sandboxes.running import Finished, Runner


class Shell:
    """Runs bash commands in one sandbox."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.sandbox = runner, runner.sandbox

    async def __call__(self, command: str, **options) -> Finished:
        return await self.runner.run(["/bin/bash", "-c", command], **options)

    async def text(self, command: str, **options) -> str:
        finished = await self(command, **options)
        assert finished.code == 0, finished
        return finished.stdout.decode().strip()


Opener = Callable[..., AbstractAsyncContextManager[Shell]]


@pytest.fixture
def opened() -> Opener:
    """``async with opened(mounts=…) as shell``: a running sandbox."""

    @contextlib.asynccontextmanager
    async def run(limit: int = 1 << 20, **layout) -> AsyncIterator[Shell]:
        with Sandbox.start(layout=Layout(**layout)) as sandbox:
            runner = Runner(sandbox, limit)
            try:
                yield Shell(runner)
            finally:
                runner.close()

    return run


@pytest.fixture
async def shell(opened: Opener) -> AsyncIterator[Shell]:
    async with opened() as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder as the harness cache is: below a closed one, readable, owned by the user who runs this."""
    folder = tmp_path / "closed" / "cache"
    folder.mkdir(parents=True)
    (folder / "program").write_text("genuine")
    (folder / "program").chmod(0o644)
    folder.chmod(0o755)
    folder.parent.chmod(0o700)
    return folder
