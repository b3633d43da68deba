"""A harness in an image of its own, instead of mounted from the cache: for an engine that sees no folders of this machine.

The image is made once of the base image and the harness, by a Dockerfile that is written for it, and kept under a tag that says of what.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pytest_harness.owners import temporary_folder
from pytest_harness.sandboxes.channel import SandboxError
from pytest_harness.sandboxes.container_cli import KIND, ContainerCli
from pytest_harness.sandboxes.layout import Mount

REPOSITORY = "harness-conformance-baked"


def dockerfile(base: str, mounts: Sequence[Mount]) -> str:
    """The text of the Dockerfile; in the folder that it is built in, each mount lies under its number."""
    copies = [f"COPY {json.dumps([str(number), mount.target])}\n" for number, mount in enumerate(mounts)]
    return "".join([f"FROM {base.removeprefix('sha256:')}\n", *copies])


def baked(cli: ContainerCli, base: str, harness: str, digest: str, mounts: Sequence[Mount]) -> str:
    """The digest of the image of this harness on the image ``base``, which is built if the engine does not have it. Raises SandboxError."""
    recipe = json.dumps([base, digest, dockerfile(base, mounts)])
    tag = f"{REPOSITORY}:{harness}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if (found := cli.image_id(tag)) is not None:
        return found
    with temporary_folder("baking") as around:
        context = around / "context"
        context.mkdir()
        (context / "Dockerfile").write_text(dockerfile(base, mounts), encoding="utf-8")
        for number, mount in enumerate(mounts):
            _gather(mount.source.resolve(), context / str(number))
        cli.build(context, tag, [f"{KIND}=baked"])
    if (made := cli.image_id(tag)) is None:
        raise SandboxError(f"{cli.engine} build made no image {tag}; see whether its disk is full")
    return made


def _gather(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, copy_function=_link)
    else:
        _link(source, target)


def _link(source: Path | str, target: Path | str) -> None:
    """The same file, where both places are on one file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
