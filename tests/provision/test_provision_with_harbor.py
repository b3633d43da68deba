"""A harness that is a part of Harbor."""

from importlib.metadata import version

import pytest

from pytest_harness.provision import ProvisionError, find_installed, provision
from pytest_harness.seams import AgentTable, HarborInstall, Seam

MINE = Seam(
    name="mine",
    title="my agent",
    homepage="https://example.org",
    dialect="chat",
    streams=True,
    scenarios=("edit_file",),
    install=HarborInstall(kind="harbor"),
    agent=AgentTable(harbor="mine"),
)


def test_what_comes_with_harbor_is_there_in_harbors_version_and_the_sandbox_sees_nothing_of_it(tmp_path):
    installed = provision(MINE, tmp_path)
    assert (installed.asked, installed.version) == (None, version("harbor"))
    assert (installed.mounts, installed.shims) == ((), {})
    assert len(installed.digest) == 64
    assert find_installed(MINE, tmp_path) == installed
    assert not list(tmp_path.iterdir())


def test_a_version_of_its_own_is_the_one_that_it_gives_of_itself():
    seam = MINE.model_copy(update={"install": HarborInstall(kind="harbor", version="2.0.0")})
    assert provision(seam).version == find_installed(seam).version == "2.0.0"
    assert provision(seam).digest == provision(MINE).digest


def test_a_program_that_the_sandbox_lacks_is_told_in_one_sentence():
    install = HarborInstall(kind="harbor", programs=("sh", "no-such-multiplexer"))
    with pytest.raises(ProvisionError, match=r"^mine needs no-such-multiplexer in the sandbox"):
        provision(MINE.model_copy(update={"install": install}))
