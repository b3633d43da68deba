"""The sandboxes in containers as Harbor environments: ``EnvironmentConfig(import_path=DOCKER_SANDBOX, kwargs={"image": …})``.

They are made from one image for all tasks, ours or the one that is named: a task's own Dockerfile is not built.
"""

from __future__ import annotations

from typing import ClassVar, override

from pydantic import Field

from pytest_harness.sandboxes.channel import RunningSandbox
from pytest_harness.sandboxes.container_cli import ContainerCli, Engine
from pytest_harness.sandboxes.containers import ContainerSandbox, check, found_image
from pytest_harness.sandboxes.environment import HarborSandbox, SandboxOptions
from pytest_harness.sandboxes.layout import Layout

DOCKER_SANDBOX = "pytest_harness.sandboxes.boxed:DockerSandbox"
PODMAN_SANDBOX = "pytest_harness.sandboxes.boxed:PodmanSandbox"


class BoxedOptions(SandboxOptions):
    """The options of a sandbox in a container."""

    image: str | None = Field(default=None, description="An image that the engine has, instead of our base image.")


class BoxedSandbox(HarborSandbox):
    """One container for one environment of a trial."""

    engine: ClassVar[Engine]
    options_model = BoxedOptions
    options: BoxedOptions

    @staticmethod
    @override
    def type() -> str:
        raise NotImplementedError

    @classmethod
    @override
    def refusal(cls) -> str | None:
        return check(cls.engine)

    @override
    def run(self, layout: Layout) -> RunningSandbox:
        cli = ContainerCli(self.engine)
        return ContainerSandbox.start(cli, found_image(cli, self.options.image), layout, self.options.limits)


class DockerSandbox(BoxedSandbox):
    """In docker."""

    engine = "docker"

    @staticmethod
    @override
    def type() -> str:
        return "docker"


class PodmanSandbox(BoxedSandbox):
    """In podman."""

    engine = "podman"

    @staticmethod
    @override
    def type() -> str:
        return "podman"
