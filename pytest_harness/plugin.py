"""The pytest door: options and nothing else. Without a subject (``SUBJECTS``) the plugin is inert.

What a conformance run does is in ``session``, which is imported only when one was asked for.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_harness.places import EVIDENCE_DIR, REPLAY_DIR, REPORT_DIR

SUBJECTS = ("--harness", "--replay", "--proxy", "--runtime", "--verifier", "--llm-url")
ALONE = ("proxy", "runtime", "verifier", "llm-url")
"""The subjects that a run judges one of."""
OF_RUNS = ("image", "bake", "public-url", "public-port", "tunnel", "engine", "full-matrix", "attempts", "llm-key-env", "model")
"""What says how a rollout is made, and nothing where none is."""
OF_SEAMS = ("shard", "expected-failures", "require", "scenario", "sabotage", *OF_RUNS[:-2])
"""What says something of seams alone; an engine has a model and a key too."""
DEFAULTS = {"engine": "scripted", "attempts": 1}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options of a conformance run.

    Each is always there as ``--conformance-NAME``. The short names exist only in a run that names a subject by one of them, so
    that a host or a plugin that owns ``--engine`` or ``--scenario`` is not disturbed by having us installed.
    """
    group = parser.getgroup("harness", "harness conformance (inert unless a harness or evidence to replay is named)")
    short = _short_names_wanted(pluginmanager)

    def option(
        name: str, metavar: str, text: str, *, default: object = None, repeat: bool = False, parse: Callable[[str], object] = str
    ) -> None:
        flags = [f"--{name}", f"--conformance-{name}"] if short else [f"--conformance-{name}"]
        group.addoption(
            *flags,
            dest=f"harness_{name.replace('-', '_')}",
            metavar=metavar,
            default=[] if repeat else default,
            action="append" if repeat else "store",
            type=parse,
            help=f"{text}; short: --{name}" + ("; repeatable" if repeat else ""),
        )

    option("harness", "NAME[@VERSION]", "judge this seam, 'all' of the table, or its 'fast' tier", repeat=True)
    option(
        "sandbox",
        "NAME",
        "where it runs: local, docker, podman, a backend of Harbor's, module:Class (default: local)",
        repeat=True,
    )
    option("image", "NAME", "with --sandbox=docker or podman: an image that the engine has, instead of our base image")
    group.addoption(
        *(["--bake"] if short else []),
        "--conformance-bake",
        dest="harness_bake",
        action="store_true",
        help="with --sandbox=docker or podman: put the harness into an image instead of mounting it; short: --bake",
    )
    option("public-url", "URL", "with a remote sandbox: a URL that you lead to port 8555 of this machine's loopback")
    option("public-port", "PORT", "with --public-url: another port", parse=int)
    option("tunnel", "COMMAND", "with a remote sandbox: a command that leads a URL to port {port} of this machine and prints the URL")
    option("engine", "NAME", "what samples (default: scripted)", default=DEFAULTS["engine"])
    option("scenario", "NAME", "only this scenario (default: what the seam declares)", repeat=True)
    group.addoption(
        *(["--full-matrix"] if short else []),
        "--conformance-full-matrix",
        dest="harness_full_matrix",
        action="store_true",
        help="everything: with --harness=all every pair, variant and slow row, with --engine=vllm faults too; short: --full-matrix",
    )
    option("attempts", "N", "tries of each rollout (default: 1)", default=DEFAULTS["attempts"], parse=int)
    option("shard", "I/N", "only this part of the rollouts, such as 3/8; harness-conformance report --merge joins the parts")
    option("replay", "DIR", "judge stored evidence again, start nothing", parse=_path)
    option("proxy", "SPEC", "judge a capture proxy: 'bundled', 'openenv', or an adapter class as module:Class")
    option("runtime", "SPEC", "judge a white-box runtime: 'bundled', 'openenv', or an adapter class as module:Class")
    option("verifier", "SPEC", "judge a sandbox with its verifier: 'local', a backend of Harbor, or a class of either kind as module:Class")
    option("llm-url", "URL", "judge an engine: any endpoint of OpenAI's chat completions, such as http://127.0.0.1:8000/v1")
    option("model", "NAME", "with --llm-url: the model, where it serves several; with --engine=vllm: what a vllm of yours is to serve")
    option("llm-key-env", "NAME", "with --llm-url: the variable that holds the engine's key")
    option("sabotage", "NAME", "break the evidence in this known way before it is judged, to see the run go red")
    option("requirements", "VERSION", "requirement set (default: the newest frozen one)")
    option("seams", "DIR", "a folder with seam rows of your own", repeat=True, parse=_path)
    option("scenarios", "DIR", "a folder with scenarios of your own", repeat=True, parse=_path)
    option("expected-failures", "FILE", "TOML: failures that make the run no redder, each with reason, link and expiry", parse=_path)
    option("require", "STATUS", "be red unless every seam has this verdict: validated")
    option("evidence-dir", "DIR", f"where evidence is kept (default: {EVIDENCE_DIR})", default=EVIDENCE_DIR, parse=_path)
    option("report-dir", "DIR", f"where the report is written (default: {REPORT_DIR}, for a replay {REPLAY_DIR})", parse=_path)


def pytest_configure(config: pytest.Config) -> None:
    """Take over the run if a subject was named."""
    if config.option.help:
        return
    alone = [name for name in ALONE if config.getoption(f"harness_{name.replace('-', '_')}") is not None]
    if len(alone) > 1:
        raise pytest.UsageError(f"--{' and --'.join(alone)} name a subject each; run pytest once for each")
    if alone and (unheard := _given(config, OF_SEAMS)):
        raise pytest.UsageError(f"--{unheard[0]} is for runs of seams, and --{alone[0]} names another subject; leave one of them out")
    if config.getoption("harness_replay") is not None and (unheard := _given(config, OF_RUNS)):
        raise pytest.UsageError(f"--{unheard[0]} is for rollouts, and --replay judges those that were made; leave one of them out")
    if alone == ["llm-url"]:
        from pytest_harness.session.engine import EngineSession  # noqa: PLC0415 (likewise)

        config.pluginmanager.register(EngineSession(config), "harness-conformance-engine")
    elif alone == ["proxy"]:
        from pytest_harness.session.wire import WireSession  # noqa: PLC0415 (likewise)

        config.pluginmanager.register(WireSession(config), "harness-conformance-wire")
    elif alone == ["runtime"]:
        from pytest_harness.session.runtime import RuntimeSession  # noqa: PLC0415 (likewise)

        config.pluginmanager.register(RuntimeSession(config), "harness-conformance-runtime")
    elif alone == ["verifier"]:
        from pytest_harness.session.verifier import VerifierSession  # noqa: PLC0415 (likewise)

        config.pluginmanager.register(VerifierSession(config), "harness-conformance-verifier")
    elif config.getoption("harness_harness") or config.getoption("harness_replay") is not None:
        from pytest_harness.session import ConformanceSession  # noqa: PLC0415 (inert runs do not pay for it)

        if config.getoption("harness_llm_key_env") is not None:
            raise pytest.UsageError("--llm-key-env is for --llm-url, and none is given; leave it out")
        session = ConformanceSession(config)
        config.pluginmanager.register(session, "harness-conformance")
        if session.plan.pool is not None:
            from pytest_harness.session.public import PublicWay  # noqa: PLC0415 (likewise)

            config.pluginmanager.register(PublicWay(config, session.plan, session.progress), "harness-conformance-public-way")


def _path(text: str) -> Path:
    """What a path's option says. An empty one, as of a variable that is not set, would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path names nothing; name the folder or file, or . for the current folder")
    return Path(text)


def _given(config: pytest.Config, names: tuple[str, ...]) -> list[str]:
    """Those of these options that say anything."""
    values = {name: config.getoption(f"harness_{name.replace('-', '_')}") for name in names}
    return [name for name, value in values.items() if value is not None and value is not False and value not in ([], DEFAULTS.get(name))]


def _short_names_wanted(pluginmanager: pytest.PytestPluginManager) -> bool:
    config = pluginmanager.get_plugin("pytestconfig")
    if config is None:
        return False
    arguments = [*config.invocation_params.args, *shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *config.getini("addopts")]
    return any(str(argument).split("=", 1)[0] in SUBJECTS for argument in arguments)
