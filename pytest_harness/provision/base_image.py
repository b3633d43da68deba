"""Makes the image of sandboxes in containers without pulling one: ``python -m pytest_harness.provision.base_image docker podman``.

It is a small Debian of what the local sandbox has of its host, bootstrapped by mmdebstrap, kept in the cache as an archive, and imported
into each engine that is named. With none named it is only put into the cache.
"""

from __future__ import annotations

import hashlib
from shutil import which
from typing import Annotated

import typer

from pytest_harness.provision.cache import Cache, Entry, Made, Making, Progress, ProvisionError
from pytest_harness.provision.tools import run_installer
from pytest_harness.sandboxes.channel import SandboxError
from pytest_harness.sandboxes.container_cli import BASE_IMAGE, ENGINES, KIND, ContainerCli
from pytest_harness.sandboxes.layout import PATH, SHIMS

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "curl", "git", "procps", "python3", "tmux")
"""Beside Debian's essential ones: what harnesses and their tasks find in a local sandbox."""
UNREAD = ("doc", "info", "locale", "man")
"""What nobody reads in a sandbox, below /usr/share."""
ARCHIVE = "base.tar"
IMPORT_SEC = 300.0


def obtain_base(cache: Cache, progress: Progress, suite: str = SUITE) -> Entry:
    """The entry of the cache whose tree has the archive, made if it is not there. Raises ProvisionError."""
    entry = cache.entry("image", suite, {"packages": PACKAGES, "unread": UNREAD})
    cache.obtain(entry, f"Debian {suite} for sandboxes in containers (some 200 MB)", lambda making: _bootstrap(making, suite), progress)
    return entry


def _bootstrap(making: Making, suite: str) -> Made:
    if which("mmdebstrap") is None:
        raise ProvisionError("there is no mmdebstrap on this machine; install it (Debian: apt-get install mmdebstrap)")
    less = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNREAD]
    archive = making.tree / ARCHIVE
    # What a crash cuts off is not taken, so nothing need be flushed to the disk on the way.
    what = ["--variant=apt", "--dpkgopt=force-unsafe-io", *less, f"--include={','.join(PACKAGES)}", suite, str(archive)]
    run_installer(making, f"mmdebstrap {suite}", ["mmdebstrap", *what], {})
    with archive.open("rb") as file:
        return Made(version=suite, digest=hashlib.file_digest(file, "sha256").hexdigest())


def put(cli: ContainerCli, entry: Entry) -> str:
    """Import the archive as the base image of an engine; its digest. Raises SandboxError."""
    marks = ("--change", f"ENV PATH={PATH.removeprefix(f'{SHIMS}:')}", "--change", f"LABEL {KIND}=base")
    cli.ask("import", *marks, str(entry.tree / ARCHIVE), BASE_IMAGE, seconds=IMPORT_SEC)
    if (digest := cli.image_id(BASE_IMAGE)) is None:
        raise SandboxError(f"{cli.engine} import made no image; see whether its disk is full")
    return digest


def main(
    engines: Annotated[list[str] | None, typer.Argument(help=f"Which engines get it: {', '.join(ENGINES)}.")] = None,
    suite: Annotated[str, typer.Option(help="The release of Debian.")] = SUITE,
) -> None:
    """Make the base image of sandboxes in containers, where an engine does not have it."""
    try:
        if unknown := sorted(set(engines or ()) - set(ENGINES)):
            raise SandboxError(f"{unknown[0]!r} is no engine that is known; known: {', '.join(ENGINES)}")  # noqa: TRY301
        clis = [ContainerCli(each) for each in ENGINES if each in (engines or ())]
        wanting = [cli for cli in clis if cli.version() and cli.image_id(BASE_IMAGE) is None]
        if clis and not wanting:
            return
        entry = obtain_base(Cache(), typer.echo, suite)
        for cli in wanting:
            typer.echo(f"{cli.engine}: {BASE_IMAGE} {put(cli, entry)}")
    except (SandboxError, ProvisionError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    typer.run(main)
