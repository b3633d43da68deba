"""The fixtures of the bundled suite. They exist only in a conformance run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_harness.contract import judge_one, validity
from pytest_harness.evidence import known_failure
from pytest_harness.provision import ProvisionError
from pytest_harness.requirements import Requirement
from pytest_harness.session.judged import Judged, ended_property, folder_property
from pytest_harness.session.memory import Loaded, Memory
from pytest_harness.session.outcome import raise_outcome
from pytest_harness.session.plan import Attempt, Plan
from pytest_harness.session.progress import Progress

PLAN = pytest.StashKey[Plan]()
PROGRESS = pytest.StashKey[Progress]()
ENDED = pytest.StashKey[dict[Path, str]]()
"""By the folder of its evidence: how a rollout of this process ended, for people."""
MEMORY = pytest.StashKey[Memory]()


@pytest.fixture
def harness_evidence(harness_attempt: Attempt, pytestconfig: pytest.Config) -> Loaded:
    """The folder of the attempt's evidence, and the evidence; the rollout runs now if nobody has run it yet."""
    loaded = pytestconfig.stash[MEMORY].get(harness_attempt.id, lambda: _load(harness_attempt, pytestconfig))
    if not isinstance(loaded, str):
        return loaded
    if harness_attempt.seam.harness in pytestconfig.stash[PLAN].named:
        pytest.fail(loaded, pytrace=False)
    pytest.skip(loaded)


def _load(attempt: Attempt, config: pytest.Config) -> Loaded | str:
    """The evidence, or the sentence that says why it cannot be had."""
    try:
        with config.stash[PROGRESS].running(attempt) as ended:
            folder, evidence = attempt.load()
            if attempt.spec is not None:
                config.stash[ENDED].setdefault(folder, ended(evidence))  # it may be read again much later
            return folder, config.stash[PLAN].sabotaged(evidence)
    except ProvisionError as error:
        return str(error)
    except pytest.fail.Exception as ended_early:  # pytest-timeout's, from a signal in the middle of the rollout
        return f"the rollout was broken off: {ended_early.msg}"
    except Exception as error:  # noqa: BLE001 (said once for each test, and not tried again for each)
        return f"the rollout could not be run or read: {type(error).__name__}: {error}"


@pytest.fixture
def settle_validity(request: pytest.FixtureRequest) -> Callable[[Loaded], None]:
    """Fails the test if the rollout says nothing of its subject, with who is to blame."""

    def settle(loaded: Loaded) -> None:
        folder, evidence = loaded
        request.node.user_properties += [folder_property(folder), ended_property(request.config.stash[ENDED].get(folder, ""))]
        verdict = validity(evidence)
        if not verdict.valid:
            pytest.fail(f"this rollout counts for nothing; to blame: {verdict.blame}: {verdict.reason}\n{folder}", pytrace=False)

    return settle


@pytest.fixture
def settle(request: pytest.FixtureRequest) -> Callable[[Loaded, Requirement], None]:
    """Judges one requirement and gives the test its outcome."""

    def settle(loaded: Loaded, requirement: Requirement) -> None:
        folder, evidence = loaded
        request.node.user_properties.append(folder_property(folder))
        if not validity(evidence).valid:
            pytest.skip("the rollout is invalid, see test_rollout")
        plan = request.config.stash[PLAN]
        judged = Judged(folder, judge_one(evidence, requirement), plan.sabotage)
        request.node.user_properties += [judged.to_property(), *judged.facts]
        manifest = evidence.manifest
        expected = plan.gate.excuse(manifest.harness, manifest.sandbox, requirement.id, plan.today)
        raise_outcome(judged, expected or known_failure(manifest.seam.known_failures, requirement.id, manifest.scenario.name))

    return settle
