"""Makes the image of sandboxes in containers without pulling one: ``python -m pytest_harness.sandboxes.base_image docker``.

It is a small Debian of what the local sandbox has of its host, bootstrapped by mmdebstrap and imported into each engine that is named.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which
from typing import Annotated

import typer

from pytest_harness.owners import temporary_folder
from pytest_harness.sandboxes.channel import SandboxError
from pytest_harness.sandboxes.container_cli import BASE_IMAGE, ENGINES, KIND, ContainerCli
from pytest_harness.sandboxes.layout import PATH, SHIMS

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "curl", "git", "procps", "python3", "tmux")
"""Beside Debian's essential ones: what harnesses and their tasks find in a local sandbox."""
UNREAD = ("doc", "info", "locale", "man")
"""What nobody reads in a sandbox, below /usr/share."""
IMPORT_SEC = 300.0


def bootstrap(suite: str, target: Path) -> None:
    """Write the files of a fresh Debian into the archive ``target``. Raises SandboxError."""
    if which("mmdebstrap") is None:
        raise SandboxError("there is no mmdebstrap on this machine; install it (Debian: apt-get install mmdebstrap)")
    left_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNREAD]
    # An image that is cut off by a crash is not imported, so nothing need be flushed to the disk on the way.
    command = ["mmdebstrap", "--quiet", "--variant=apt", "--dpkgopt=force-unsafe-io", *left_out, f"--include={','.join(PACKAGES)}", suite]
    answer = subprocess.run([*command, str(target)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if answer.returncode != 0:
        lines = answer.stderr.strip().splitlines()
        raise SandboxError(f"mmdebstrap failed: {lines[-1] if lines else 'it said nothing'}")


def put(cli: ContainerCli, archive: Path) -> str:
    """Import the archive as the base image of an engine; its digest. Raises SandboxError."""
    path = PATH.removeprefix(f"{SHIMS}:")
    cli.ask("import", "--change", f"ENV PATH={path}", "--change", f"LABEL {KIND}=base", str(archive), BASE_IMAGE, seconds=IMPORT_SEC)
    return cli.image_id(BASE_IMAGE) or ""


def main(
    engines: Annotated[list[str], typer.Argument(help=f"Which engines get it: {', '.join(ENGINES)}.")],
    suite: Annotated[str, typer.Option(help="The release of Debian.")] = SUITE,
    again: Annotated[bool, typer.Option("--again", help="Also where an engine has one.")] = False,
) -> None:
    """Make the base image of sandboxes in containers."""
    try:
        clis = [ContainerCli(each) for each in ENGINES if each in engines]
        if unknown := sorted(set(engines) - set(ENGINES)):
            raise SandboxError(f"{unknown[0]!r} is no engine that is known; known: {', '.join(ENGINES)}")  # noqa: TRY301
        for cli in clis:
            cli.version()
        wanting = [cli for cli in clis if again or cli.image_id(BASE_IMAGE) is None]
        if not wanting:
            return
        with temporary_folder("base") as folder:
            archive = folder / "base.tar"
            bootstrap(suite, archive)
            for cli in wanting:
                typer.echo(f"{cli.engine}: {BASE_IMAGE} {put(cli, archive)}")
    except SandboxError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    typer.run(main)
