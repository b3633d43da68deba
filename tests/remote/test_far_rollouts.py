"""Whole rollouts in a sandbox that behaves like one on another machine, and what is said where there is no way to such a one."""

import json
import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_harness.contract import validity
from pytest_harness.evidence import find_evidence, read_evidence
from pytest_harness.sandboxes.catalogue import bundled_catalogue
from pytest_harness.session.public import PublicWay, require_sandboxes

HERE = Path(__file__).parent
OWN = HERE.parents[1] / "examples" / "own-harness"
PATH = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
FAR, DEAF = "far_sandbox:FarSandbox", "far_sandbox:DeafSandbox"


@pytest.fixture(scope="module")
def far_run(tmp_path_factory, run_pytest):
    """Runs pytest with a tunnel, and with a cache of its own."""
    cache = tmp_path_factory.mktemp("cache")

    def run(folder: Path, *arguments: object):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        env = {"FAR_PORT": str(port), "PYTHONPATH": PATH, "HARNESS_CONFORMANCE_CACHE": str(cache)}
        tunnel = f"exec {sys.executable} {HERE / 'forwarder.py'} {{port}} {port}"
        return run_pytest(folder, "--harness=nosy", f"--seams={HERE / 'seams'}", "--tunnel", tunnel, *arguments, env=env)

    return run


@pytest.fixture(scope="module")
def ran(tmp_path_factory, far_run):
    """One run in the local sandbox and in the far one, over two workers."""
    folder = tmp_path_factory.mktemp("far")
    return folder, far_run(folder, "--sandbox=local", f"--sandbox={FAR}", "-n", "2")


@pytest.fixture(scope="module")
def evidence(ran):
    """By sandbox and scenario."""
    found = [read_evidence(folder) for folder in find_evidence(ran[0] / ".harness" / "evidence")]
    return {(each.manifest.sandbox, each.manifest.scenario.name): each for each in found}


def test_rollouts_in_it_are_judged_as_any_other(ran, evidence):
    assert ran[1].returncode == 0, ran[1].stdout[-2000:] + ran[1].stderr
    assert sorted(evidence) == sorted((sandbox, scenario) for sandbox in ("local", FAR) for scenario in ("edit_file", "explore"))
    for each in evidence.values():
        assert validity(each).valid
        assert each.trial_result["verifier_result"]["rewards"] == {"reward": 1.0}
        assert each.manifest.sandbox_gone is True


def test_its_calls_are_those_of_the_local_sandbox_and_tell_nothing_of_the_way(evidence):
    for scenario in ("edit_file", "explore"):
        near, far = evidence["local", scenario], evidence[FAR, scenario]
        assert [call.path for call in far.calls] == [call.path for call in near.calls]
        assert {call.path for call in far.calls} == {"/v1/chat/completions"}
        told = [json.loads(each.calls[-1].forwarded.body)["messages"] for each in (near, far)]
        assert [[message.get("content") for message in messages] for messages in told[:1]] == [
            [message.get("content") for message in messages] for messages in told[1:]
        ]


def test_it_is_the_same_harness(evidence):
    assert evidence["local", "explore"].manifest.digests["harness"] == evidence[FAR, "explore"].manifest.digests["harness"]


def test_nobody_says_what_else_left_it(ran, evidence):
    assert evidence[FAR, "explore"].manifest.network == "open"
    assert "did not run: SEA-008 No call goes past the proxy" in ran[1].stdout


def test_from_inside_nothing_is_reached_but_its_own_attempt_with_its_own_key(ran):
    seen = [json.loads(path.read_text()) for path in (ran[0] / ".harness" / "evidence" / "nosy" / FAR).rglob("nosy.json")]
    assert len(seen) == 2
    for each in seen:
        assert each == {
            "its own": 200,
            "its own, without the key": 401,
            "its own, with another key": 401,
            "the root": 404,
            "the root's models": 404,
            "the admin API": 404,
            "the admin API, to open one": 404,
            "the admin API below its own": 404,
            "another attempt": 404,
            "the loopback of the other machine": "URLError",
        }


def test_neither_key_nor_path_is_seen_by_the_grader(evidence):
    for scenario in ("edit_file", "explore"):
        grading = evidence[FAR, scenario].manifest.grading
        assert grading.seam_variables == ()
        assert grading.running == ()


def test_nothing_is_left_of_the_tunnel(ran):
    assert ran[1].returncode == 0
    mine = str(HERE / "forwarder.py").encode()
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:  # it has ended
            continue
    assert [line for line in lines if mine in line and str(os.getpid()).encode() not in line] == []


def test_a_backend_that_takes_no_files_is_to_blame_itself(tmp_path, far_run):
    done = far_run(tmp_path, f"--sandbox={DEAF}", "--scenario=edit_file", "-k", "test_rollout")
    assert done.returncode == 1
    assert "to blame: surroundings: no call reached the proxy" in done.stdout
    assert "the quota of this account is used up" in done.stdout


ACCOUNTS = {
    "modal": "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET or run modal token new",
    "e2b": "set E2B_API_KEY",
    "daytona": "set DAYTONA_API_KEY or set DAYTONA_JWT_TOKEN and DAYTONA_ORGANIZATION_ID",
    "runloop": "set RUNLOOP_API_KEY",
}


@pytest.fixture
def no_accounts(monkeypatch, tmp_path):
    for backend in bundled_catalogue().values():
        for variable in (name for way in backend.credentials for name in way.variables):
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("name", ACCOUNTS)
@pytest.mark.usefixtures("no_accounts")
def test_a_backend_without_an_account_is_refused_with_the_variables(name):
    with pytest.raises(pytest.UsageError) as caught:
        require_sandboxes([name], ("local",))
    assert str(caught.value).startswith(f"--sandbox {name}: {bundled_catalogue()[name].title} cannot be used yet: {ACCOUNTS[name]}")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("no_accounts")
def test_such_a_refusal_is_one_line_and_pytests_exit_code_for_wrong_usage(tmp_path, run_pytest):
    done = run_pytest(tmp_path, "--harness=codex", "--sandbox=modal")
    assert done.returncode == 4
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    assert len(lines) == 1
    assert "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET" in lines[0]
    assert "Traceback" not in done.stdout + done.stderr


def options(**given: object) -> SimpleNamespace:
    """A configuration of pytest with these options of ours."""
    named = {f"harness_{name}": given.get(name) for name in ("public_url", "public_port", "tunnel")}
    return SimpleNamespace(getoption=named.__getitem__)


@pytest.mark.parametrize(
    ("needed", "given", "sentence"),
    [
        (True, {}, "cannot reach the proxy on this machine's loopback: give a URL that leads here with --public-url, or a command"),
        (True, {"public_url": "https://a", "tunnel": "b"}, "--public-url and --tunnel are two ways to the same place"),
        (True, {"public_port": 1, "tunnel": "b"}, "--public-port is for --public-url"),
        (False, {"public_url": "https://a"}, "--public-url is for a sandbox that cannot reach this machine's loopback"),
        (False, {"tunnel": "b"}, "--tunnel is for a sandbox that cannot reach this machine's loopback"),
    ],
)
def test_options_that_do_not_go_together_are_told_in_one_sentence(needed, given, sentence):
    spec = SimpleNamespace(sandbox=FAR, remote=None, needs_public_way=needed)
    with pytest.raises(pytest.UsageError) as caught:
        PublicWay(options(**given), SimpleNamespace(specs=(spec,), pool=None), None)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([f"--sandbox={FAR}", "--tunnel=echo no account; exit 3 # {port}"], "ended with exit code 3: no account"),
        (["--sandbox=no_such_module:Class", "--tunnel=b {port}"], "Failed to import module 'no_such_module'"),
    ],
)
def test_a_way_or_a_class_that_is_not_there_is_told_before_anything_starts(tmp_path, run_pytest, arguments, sentence):
    env = {"PYTHONPATH": PATH, "FAR_PORT": "1"}
    done = run_pytest(tmp_path, "--harness=tiny-agent", f"--seams={OWN / 'seams'}", *arguments, env=env)
    assert done.returncode == 4, done.stdout + done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
