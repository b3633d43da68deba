"""The fixtures of the bundled suite. They exist only in a conformance run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_harness.contract import judge_one, validity
from pytest_harness.evidence import Evidence
from pytest_harness.provision import ProvisionError
from pytest_harness.requirements import Requirement
from pytest_harness.session.judged import Judged
from pytest_harness.session.outcome import raise_outcome
from pytest_harness.session.plan import Attempt, Plan
from pytest_harness.session.progress import Progress

PLAN = pytest.StashKey[Plan]()
PROGRESS = pytest.StashKey[Progress]()

Loaded = tuple[Path, Evidence]


@pytest.fixture(scope="session")
def harness_attempt(request: pytest.FixtureRequest) -> Attempt:
    """The attempt that is judged."""
    attempt: Attempt = request.param
    return attempt


@pytest.fixture(scope="session")
def harness_evidence(harness_attempt: Attempt, pytestconfig: pytest.Config) -> Loaded:
    """The folder of the attempt's evidence, and the evidence; the rollout runs now if nobody has run it yet."""
    try:
        with pytestconfig.stash[PROGRESS].running(harness_attempt) as done:
            loaded = harness_attempt.load()
            done(loaded[1])
            return loaded
    except ProvisionError as error:
        if harness_attempt.seam.harness in pytestconfig.stash[PLAN].named:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def settle_validity() -> Callable[[Loaded], None]:
    """Fails the test if the rollout says nothing of its subject, with who is to blame."""

    def settle(loaded: Loaded) -> None:
        folder, evidence = loaded
        verdict = validity(evidence)
        if not verdict.valid:
            pytest.fail(f"this rollout counts for nothing; to blame: {verdict.blame}: {verdict.reason}\n{folder}", pytrace=False)

    return settle


@pytest.fixture
def settle(request: pytest.FixtureRequest) -> Callable[[Loaded, Requirement], None]:
    """Judges one requirement and gives the test its outcome."""

    def settle(loaded: Loaded, requirement: Requirement) -> None:
        folder, evidence = loaded
        if not validity(evidence).valid:
            pytest.skip("the rollout is invalid, see test_rollout")
        judged = Judged(folder, judge_one(evidence, requirement))
        request.node.user_properties.append(judged.to_property())
        raise_outcome(judged)

    return settle
