"""What becomes of each requirement when the suite of a subject judges subjects with one known fault each.

Shared by the tests of every suite, which ask that each fault breaks exactly what it must, and by ``python tests/saboteurs/matrix.py all``,
which prints it. Each fault is a class beside the tests of its suite, whose ``BREAKS`` says what it must break.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from pytest_harness.requirements import Catalogue, Subject, load_catalogue
from pytest_harness.serving import BackgroundServer

TESTS = Path(__file__).parent

Standings = dict[str, dict[str, str]]
"""By the name of the fault, and by the id of the requirement: ``passed``, ``failed``, ``error``, ``not_exercised`` and so on."""
MakeFolder = Callable[[], Path]

LONG_OF_PROXIES = "any_conversation or without_end or how_the_engines"
"""The tests of proxies that take seconds each; they are run for the faults that only they show."""
_WORST_LAST = ("not_exercised", "unverifiable", "passed", "deviation", "failed", "error")
SHOWN_BY_LONG_TESTS = ("Unbounded", "SplitSensitive", "Nonce")
HEAVY_OF_PROXIES = "a_hundred_slow_calls or twenty_turns"
"""A fifth of the time of all others together: run for the faults that they must show."""
SHOWN_BY_HEAVY_TESTS = ("LostCall", "NarrowProxy", "Nonce")


def module_of(folder: str, name: str) -> ModuleType:
    """A module beside the tests of a suite."""
    if str(TESTS / folder) not in sys.path:
        sys.path.insert(0, str(TESTS / folder))
    return importlib.import_module(name)


def red(standings: Standings) -> dict[str, set[str]]:
    """By the name of the fault: the requirements that went red."""
    return {fault: {id_ for id_, standing in each.items() if standing in ("failed", "error")} for fault, each in standings.items()}


def of_proxies(make_folder: MakeFolder) -> Standings:
    """Two processes at a time share the work."""
    names = _names("wire", "saboteurs_of_proxies", "Sabotaged")
    others = f"not ({LONG_OF_PROXIES} or {HEAVY_OF_PROXIES})"
    work = (
        (others, names[::2]),
        (others, names[1::2]),
        (LONG_OF_PROXIES, ["Sabotaged", *SHOWN_BY_LONG_TESTS]),
        (HEAVY_OF_PROXIES, ["Sabotaged", *SHOWN_BY_HEAVY_TESTS]),
    )
    folders = [make_folder() for _ in work]
    _finish(
        _judge("wire", "--proxy", folder, selection, [f"saboteurs_of_proxies:{name}" for name in some])
        for folder, (selection, some) in zip(folders, work, strict=True)
    )
    return _read(folders, "wire.json")


def of_runtimes(make_folder: MakeFolder) -> Standings:
    """Two processes share the work."""
    specs = [f"saboteurs_of_runtimes:{name}" for name in _names("runtimes", "saboteurs_of_runtimes", "Sabotaged")]
    folders = [make_folder() for _ in range(2)]
    _finish(_judge("runtimes", "--runtime", folder, "test_runtime_", specs[start::2]) for start, folder in enumerate(folders))
    return _read(folders, "runtime.json")


def of_engines(make_folder: MakeFolder) -> Standings:
    """Two processes share the work; all engines are behind one port."""
    names = _names("engine_suite", "saboteurs_of_engines", "Sound")
    folders = [make_folder() for _ in range(2)]
    with BackgroundServer(module_of("engine_suite", "saboteurs_of_engines").Bench()) as server:
        root = server.listen().url
        urls = [f"{root}/{name}/v1" for name in names]
        _finish(_judge("engine_suite", "--llm-url", folder, "test_engine_", urls[start::2]) for start, folder in enumerate(folders))
    return _read(folders, "engine.json")


def of_verifiers(make_folder: MakeFolder) -> Standings:
    """One or two cases of each requirement."""
    cases = module_of("verifiers", "test_verifier_saboteurs").CASES
    specs = [f"saboteurs_of_verifiers:{name}" for name in _names("verifiers", "saboteurs_of_verifiers", "Sound")]
    folder = make_folder()
    _finish([_judge("verifiers", "--verifier", folder, cases, specs)])
    return _read([folder], "verifier.json")


def of_collectors(make_folder: MakeFolder) -> Standings:
    """The worst of the cases of each requirement."""
    return {
        name: {id_: max(outcomes, key=_WORST_LAST.index) for id_, outcomes in results.items()}
        for name, results in said_of_collectors(make_folder, _names("collect", "faulty_collectors", "Healthy")).items()
    }


def said_of_collectors(make_folder: MakeFolder, names: list[str]) -> dict[str, dict[str, dict[str, list[str]]]]:
    """By collector, requirement and outcome: what was said of each case. Two processes share the work."""
    folders = [make_folder() for _ in range(2)]
    specs = [name if ":" in name else f"faulty_collectors:{name}" for name in names]
    command = [sys.executable, str(TESTS / "collect" / "judge_collectors.py")]
    _finish(_start([*command, str(folder), *specs[start::2]], folder, TESTS / "collect") for start, folder in enumerate(folders))
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for folder in folders:
        found |= json.loads((folder / "results.json").read_text())
    return {spec.removeprefix("faulty_collectors:"): results for spec, results in found.items()}


@dataclass(frozen=True)
class Suite:
    """A suite that judges live, with its faults."""

    judge: Callable[[MakeFolder], Standings]
    sound: str
    """The name of the subject without a fault."""
    subject: Subject
    families: tuple[str, ...] = ()
    """Of the requirements on the subject, where the suite judges only some."""

    def required(self) -> Catalogue:
        """What it asks of its subject."""
        everything = load_catalogue(subject=self.subject)
        return Catalogue(everything.version, tuple(each for each in everything if not self.families or each.family in self.families))


SUITES = {
    "proxy": Suite(of_proxies, "Sabotaged", "proxy"),
    "engine": Suite(of_engines, "Sound", "engine"),
    "runtime": Suite(of_runtimes, "Sabotaged", "runtime", ("RUN",)),
    "collector": Suite(of_collectors, "Healthy", "runtime", ("COL",)),
    "verifier": Suite(of_verifiers, "Sound", "sandbox"),
}


def _names(folder: str, module: str, sound: str) -> list[str]:
    return [sound, *(cls.__name__ for cls in module_of(folder, module).BREAKS)]


def _judge(home: str, option: str, folder: Path, selection: str, specs: list[str]) -> subprocess.Popen[bytes]:
    return _start([sys.executable, str(TESTS / "judge_subjects.py"), option, str(folder), selection, *specs], folder, TESTS / home)


def _start(command: list[str], folder: Path, home: Path) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(home)
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _finish(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    started = list(processes)
    said = [process.communicate()[1].decode() for process in started]
    assert [process.returncode for process in started] == [0] * len(started), "\n".join(said)


def _read(folders: list[Path], report: str) -> Standings:
    """A fault that was judged in two parts stands as in the part where it stands worst."""
    found: Standings = {}
    for path in (path for folder in folders for path in folder.rglob(report)):
        document = json.loads(path.read_text())
        name = document["engine"].split("/")[-2] if report == "engine.json" else path.parent.name.partition(":")[2]
        standings = found.setdefault(name, {})
        for entry in document["requirements"]:
            standings[entry["id"]] = max(standings.get(entry["id"], "not_exercised"), entry["standing"], key=_WORST_LAST.index)
    return found
