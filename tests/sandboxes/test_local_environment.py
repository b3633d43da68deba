"""The local sandbox as Harbor uses it."""

import asyncio
import contextlib
import os
import tarfile
from pathlib import Path

import pytest
from harbor.models.task.config import EnvironmentConfig as TaskEnvironment
from harbor.models.task.config import NetworkMode, NetworkPolicy
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.models.trial.paths import TrialPaths
from harbor.trial.trial import Trial

from pytest_harness.sandboxes.bubblewrap import Sandbox, SandboxDiedError, SandboxError
from pytest_harness.sandboxes.copying import CopyError
from pytest_harness.sandboxes.environment import dockerfile_workdir
from pytest_harness.sandboxes.gates import gate
from pytest_harness.sandboxes.local import ERROR_POLICY, LOCAL_SANDBOX, LocalSandbox

# Harbor warns of a property that it uses itself
pytestmark = pytest.mark.filterwarnings("ignore:Task.checksum will be deprecated:DeprecationWarning")

TASK = {
    "task.toml": 'schema_version = "1.4"\n[task]\nname = "tests/answer"\n',
    "instruction.md": "Write 42 to answer.txt.\n",
    "environment/Dockerfile": "FROM scratch\nWORKDIR /app\n",
    "solution/solve.sh": "#!/bin/bash\necho 42 >answer.txt\n",
    "tests/test.sh": '#!/bin/bash\n[ "$(cat /app/answer.txt)" = 42 ]\necho $((1 - $?)) >/logs/verifier/reward.txt\n',
}


@pytest.fixture
def task(tmp_path: Path) -> Path:
    for name, text in TASK.items():
        path = tmp_path / "task" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "task"


@pytest.fixture
def made(task: Path, tmp_path: Path):
    """``async with made(gate=…) as environment``: a started one."""

    @contextlib.asynccontextmanager
    async def run(config: TaskEnvironment | None = None, network: NetworkPolicy | None = None, **options):
        environment = LocalSandbox(
            environment_dir=task / "environment",
            environment_name="answer",
            session_id="answer__1__env",
            trial_paths=TrialPaths(tmp_path / "trial"),
            task_env_config=config or TaskEnvironment(),
            network_policy=network,
            **options,
        )
        await environment.start(force_build=False)
        try:
            yield environment
        finally:
            await environment.stop(delete=True)

    return run


def trial_config(task: Path, **environment) -> TrialConfig:
    return TrialConfig(
        task=TaskConfig(path=task),
        trials_dir=task.parent / "trials",
        trial_name="one",
        agent=AgentConfig(name="oracle"),
        environment=EnvironmentConfig(import_path=LOCAL_SANDBOX, **environment),
        override_error_policy=ERROR_POLICY,
    )


@pytest.mark.parametrize("auto_mounting", [False, True])
async def test_a_whole_trial_of_the_oracle_gets_reward_1(task, monkeypatch, auto_mounting):
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")
    started: list[Sandbox] = []
    with gate(started.append) as key:
        trial = await Trial.create(trial_config(task, kwargs={"gate": key, "auto_mounting": auto_mounting}))
        result = await trial.run()
    assert result.exception_info is None
    assert result.reward_valid
    assert result.verifier_result.rewards == {"reward": 1.0}
    assert len(started) == 1
    with pytest.raises(SandboxDiedError):
        started[0].spawn(["/bin/true"])


async def test_a_sandbox_that_dies_gives_no_valid_reward(task, monkeypatch):
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")
    started: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
    (task / "solution" / "solve.sh").write_text("#!/bin/bash\nmkfifo /tmp/wait; : >/tmp/wait\n")
    with gate(started.set_result) as key:
        trial = await Trial.create(trial_config(task, kwargs={"gate": key}))
        running = asyncio.ensure_future(trial.run())
        await asyncio.wait({running, started}, return_when=asyncio.FIRST_COMPLETED)
        begun = started.result().spawn(["/bin/bash", "-c", "until [ -p /tmp/wait ]; do sleep 0.01; done"])
        await asyncio.to_thread(begun.wait)
        started.result()._keeper.kill()
        result = await running
    assert result.exception_info.exception_type == "SandboxDiedError"
    assert not result.reward_valid
    assert result.verifier_result is None


async def test_the_gate_is_passed_before_anything_is_done(made):
    seen = []

    def on_start(sandbox: Sandbox) -> None:
        seen.append((sandbox.name, sandbox.spawn(["/bin/bash", "-c", "[ ! -e /logs/verifier ]"]).wait()))

    with gate(on_start) as key:
        async with made(gate=key) as environment:
            assert seen == [("answer__1__env", 0)]
            assert (await environment.exec("test -w /logs/agent && test -w /logs/verifier && test -w /logs/artifacts")).return_code == 0


async def test_a_closed_gate_fails_the_start_in_one_sentence_and_leaves_nothing(made):
    with gate(lambda sandbox: None) as key:
        pass
    with pytest.raises(SandboxError, match=r"no gate .* is open in this process"):
        async with made(gate=key):
            pass


async def test_an_exec_is_bash_in_the_workdir_with_merged_environment(made):
    config = TaskEnvironment(env={"FROM_TASK": "1"})
    async with made(config, shims={"tool": "#!/bin/sh\necho shim\n"}, persistent_env={"PATH": "/opt/other:/usr/bin:/bin"}) as environment:
        result = await environment.exec('[[ $0 = bash ]]; pwd; echo "$FROM_TASK $OF_EXEC $HOME"; tool', env={"OF_EXEC": "2"})
        assert (result.stdout, result.stderr, result.return_code) == ("/app\n1 2 /root\nshim\n", None, 0)
        assert (await environment.exec("pwd", cwd="/tmp")).stdout == "/tmp\n"


async def test_a_timeout_is_raised_as_by_docker_and_kills(made):
    async with made() as environment:
        with pytest.raises(RuntimeError, match="Command timed out after 1 seconds"):
            await environment.exec("sleep 1000", timeout_sec=1)
        look_again = "for i in $(seq 1000); do pgrep sleep >/dev/null || exit 0; done; exit 1"  # process 1 reaps in its own time
        assert (await environment.exec(look_again)).return_code == 0


@pytest.mark.parametrize("user", ["agent", 1000])
async def test_any_user_but_root_is_refused_in_one_sentence(made, user):
    async with made() as environment:
        assert (await environment.exec("id -u", user="root")).stdout == "0\n"
        with pytest.raises(SandboxError, match="has one user, root"):
            await environment.exec("true", user=user)


@pytest.mark.parametrize("mode", [NetworkMode.PUBLIC, NetworkMode.NO_NETWORK])
async def test_there_is_no_network_whatever_the_task_asks_for(made, mode):
    async with made(network=NetworkPolicy(network_mode=mode)) as environment:
        assert (
            await environment.exec("cat /proc/net/dev | tail -n +3 | cut -d: -f1 | xargs; cat /proc/net/route | tail -n +2")
        ).stdout == "lo\n"


async def test_an_unknown_option_and_a_bad_mount_are_refused(made):
    with pytest.raises(ValueError, match="Unknown option 'bind'"):
        async with made(bind=[]):
            pass
    with pytest.raises(SandboxError, match="both sides must be absolute paths"):
        async with made(mounts=[{"type": "bind", "source": "here", "target": "/there"}]):
            pass
    with pytest.raises(SandboxError, match="no volume"):
        async with made(mounts=[{"type": "volume", "source": "here", "target": "/there"}]):
            pass


async def test_harbors_mounts_are_honoured_below_closed_folders_too(made, cache, tmp_path):
    read_only = [{"type": "bind", "source": str(cache), "target": target, "read_only": True} for target in ("/elsewhere", str(cache))]
    writable = {"type": "bind", "source": str(tmp_path / "made"), "target": "/made"}
    async with made(mounts=[*read_only, writable]) as environment:
        for folder in ("/elsewhere", cache):
            assert (await environment.exec(f"cat {folder}/program")).stdout == "genuine"
            assert (await environment.exec(f"echo forged >{folder}/program")).return_code != 0
        assert (await environment.exec("echo 1 >/made/x")).return_code == 0
    assert (tmp_path / "made" / "x").read_text() == "1\n"


async def test_services_are_refused(made, task):
    (task / "environment" / "docker-compose.yaml").write_text("services: {}\n")
    with pytest.raises(SandboxError, match="runs no services"):
        async with made():
            pass


async def test_files_and_folders_go_in_and_come_out_with_odd_names(made, tmp_path):
    odd = "-rf $(touch x) 'q\" \n\u00fc"
    source = tmp_path / "in"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / odd).write_text("odd")
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)
    async with made() as environment:
        await environment.upload_dir(source, f"/tests/{odd}")
        await environment.upload_file(source / "run.sh", f"/a/b/{odd}")
        await environment.upload_file(source_path=str(source / "run.sh"), target_path="relative.sh")
        assert (await environment.exec("./relative.sh; /a/b/*")).stdout == "ran\nran\n"
        await environment.download_dir(f"/tests/{odd}", tmp_path / "out")
        await environment.download_file(f"/a/b/{odd}", tmp_path / "deep" / "file")
        await environment.download_dir_with_exclusions(source_dir=f"/tests/{odd}", target_dir=tmp_path / "less", exclude=["sub"])
        with pytest.raises(CopyError, match="No such file"):
            await environment.download_file("/no/such", tmp_path / "x")
    assert (tmp_path / "out" / "sub" / odd).read_text() == "odd"
    assert os.access(tmp_path / "out" / "run.sh", os.X_OK)
    assert (tmp_path / "deep" / "file").read_text() == "#!/bin/sh\necho ran\n"
    assert sorted(path.name for path in (tmp_path / "less").iterdir()) == ["run.sh"]


async def test_links_made_by_an_agent_lead_nowhere_on_the_host(made, tmp_path, caplog):
    (tmp_path / "secret").write_text("canary")
    (tmp_path / "payload").write_text("payload")
    async with made() as environment:
        await environment.exec(
            f"mkdir /logs/x; cd /logs/x; ln -s {tmp_path}/secret out; ln -s ../../up up; ln -s real in; echo 1 >real; mkfifo pipe"
        )
        await environment.exec(f"ln -s {tmp_path} /logs/agent/host; mkdir -p {tmp_path}")
        await environment.download_dir("/logs/x", tmp_path / "out")
        await environment.upload_file(tmp_path / "payload", "/logs/agent/host/planted")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["in", "real"]
    assert not (tmp_path / "planted").exists()
    assert {word for word in ("out", "up", "pipe") if f"'./{word}'" in caplog.text} == {"out", "up", "pipe"}


async def test_a_sandbox_cannot_write_to_the_file_that_is_being_copied_in(made, tmp_path):
    (tmp_path / "payload").write_text("genuine")
    async with made() as environment:
        await environment.upload_file(tmp_path / "payload", "/app/payload")
        await environment.exec("echo forged >/app/payload")
    assert (tmp_path / "payload").read_text() == "genuine"


async def test_a_bad_archive_of_the_environment_is_an_error(made, tmp_path):
    async with made() as environment:
        with pytest.raises((CopyError, tarfile.TarError)):
            await environment.download_dir("/no/such/folder", tmp_path / "out")


async def test_a_start_that_is_cancelled_leaves_nothing_behind(made):
    starting = asyncio.ensure_future(made().__aenter__())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others)
    await asyncio.sleep(0)
    assert _keepers() == []


def _keepers() -> list[str]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in children if "keeper.py" in Path(f"/proc/{pid}/cmdline").read_text()]


@pytest.mark.parametrize(
    ("text", "workdir"),
    [
        ("FROM x\nWORKDIR /app\n", "/app"),
        ("FROM x\nWORKDIR /app\nworkdir sub\n", "/app/sub"),
        ("FROM x AS a\nWORKDIR /a\nFROM y\n", None),
        ('FROM x\nWORKDIR "/a b"\n', "/a b"),
        ("FROM x\n", None),
    ],
)
def test_only_the_last_stages_workdir_of_a_dockerfile_counts(tmp_path, text, workdir):
    (tmp_path / "Dockerfile").write_text(text)
    assert dockerfile_workdir(tmp_path / "Dockerfile") == workdir
    assert dockerfile_workdir(tmp_path / "none") is None


def test_a_computed_workdir_is_refused(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM x\nWORKDIR $HOME/x\n")
    with pytest.raises(SandboxError, match=r"set workdir in task\.toml"):
        dockerfile_workdir(tmp_path / "Dockerfile")
