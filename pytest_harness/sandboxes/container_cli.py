"""The command line of a container engine, docker or podman: what is asked of it, in one place.

Everything of ours that an engine holds has the label ``KIND``, and a container also ``OWNER``. So what a killed process has left is found,
and told from what another one is using.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_harness.owners import is_orphan
from pytest_harness.sandboxes.channel import SandboxError

Engine = Literal["docker", "podman"]
ENGINES: tuple[Engine, ...] = ("docker", "podman")
KIND = "harness-conformance.kind"
"""``sandbox`` of a container, ``base`` and ``baked`` of an image."""
OWNER = "harness-conformance.owner"
"""The mark of the process that it is to end with (``owners.py``)."""
BASE_IMAGE = "harness-conformance-base"
MAKE_BASE = "python -m pytest_harness.provision.base_image"
ANSWER_SEC = 60.0
"""In what time an engine answers that is well."""


@dataclass(frozen=True)
class Container:
    """One container of ours, as an engine lists it."""

    id: str
    name: str
    owner: str


@dataclass(frozen=True)
class ContainerCli:
    """One engine's command line. Whatever fails raises SandboxError in a sentence."""

    engine: Engine

    def path(self) -> str:
        """Where the program is."""
        if found := shutil.which(self.engine):
            return found
        package = {"docker": "docker.io", "podman": "podman"}[self.engine]
        raise SandboxError(f"there is no {self.engine} on this machine; install it (Debian: apt-get install {package})")

    def ask(self, *arguments: str, seconds: float = ANSWER_SEC) -> str:
        """What it says to a command, without the space around it."""
        try:
            answer = subprocess.run(
                [self.path(), *arguments], capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            raise SandboxError(f"{self.engine} {arguments[0]} took more than {seconds:.0f} seconds; see whether it hangs") from None
        if answer.returncode != 0:
            raise SandboxError(f"{self.engine} {arguments[0]} failed: {said(answer.stderr)}")
        return answer.stdout.strip()

    def version(self) -> str:
        """Of the engine, which is not always that of the program."""
        try:
            return self.ask("version", "--format", "{{.Server.Version}}" if self.engine == "docker" else "{{.Client.Version}}")
        except SandboxError as error:
            self.path()
            hint = "start its daemon, or name its socket in DOCKER_HOST" if self.engine == "docker" else "see what podman info says"
            raise SandboxError(f"the {self.engine} engine does not answer ({error}); {hint}") from None

    def image_id(self, image: str) -> str | None:
        """The digest of an image's configuration, ``sha256:…``; None if the engine does not have it."""
        try:
            found = self.ask("image", "inspect", "--format", "{{.Id}}", image)
        except SandboxError:
            self.version()  # an engine that is gone is said to be gone
            return None
        return found if found.startswith("sha256:") else f"sha256:{found}"

    def containers(self) -> list[Container]:
        """All of ours, running or not."""
        found = []
        for number in self.ask("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={KIND}=sandbox").split():
            with contextlib.suppress(SandboxError):  # it has gone since
                (row,) = json.loads(self.ask("container", "inspect", number))
                found.append(Container(row["Id"], row["Name"].removeprefix("/"), row["Config"]["Labels"].get(OWNER, "")))
        return found

    def remove(self, container: str) -> None:
        """End it at once, and take it away. One that is not there is fine."""
        try:
            self.ask("rm", "--force", "--volumes", container)
        except SandboxError as error:
            if "no such container" not in str(error).lower():
                raise

    def build(self, context: Path, tag: str, labels: Sequence[str]) -> None:
        """Build ``context``, a folder with a Dockerfile, asking nobody for an image."""
        environment = os.environ if self._builds_by_itself() else {**os.environ, "DOCKER_BUILDKIT": "0"}
        marks = [argument for label in labels for argument in ("--label", label)]
        answer = subprocess.run(
            [self.path(), "build", "--network", "none", "--tag", tag, *marks, str(context)],
            capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if answer.returncode != 0:
            raise SandboxError(f"{self.engine} build failed: {said(answer.stderr or answer.stdout)}")

    def _builds_by_itself(self) -> bool:
        """A docker of today builds with a plugin, which Debian has in no package; without it the builder of old is asked."""
        if self.engine == "podman":
            return True
        try:
            self.ask("buildx", "version")
        except SandboxError:
            return False
        return True


def said(text: str) -> str:
    """The last that a program complained of, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("See '")]
    return lines[-1] if lines else "it said nothing"


def orphans() -> list[tuple[ContainerCli, Container]]:
    """What killed processes have left in the engines of this machine: each engine, and a container of ours whose owner is gone.

    An engine that is not there, or does not answer, holds nothing that we could take away.
    """
    found = []
    for cli in map(ContainerCli, ENGINES):
        with contextlib.suppress(SandboxError):
            found += [(cli, each) for each in cli.containers() if is_orphan(each.owner)]
    return found
