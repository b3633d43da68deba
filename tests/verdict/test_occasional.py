"""Occasional requirements: required where what they speak of comes up, and only there; what nobody looked for has not stayed away."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from pytest_harness.contract import Outline, judge_one
from pytest_harness.reports.build import build_report
from pytest_harness.reports.terminal import print_matrix
from pytest_harness.requirements import Catalogue, load_catalogue
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import replace_text, with_manifest
from pytest_harness.verdict import Rollout, seam_verdict

FROZEN = load_catalogue("2026.11")


def occasionally(*names):
    """The frozen catalogue with these requirements as occasional ones."""
    return Catalogue("test", tuple(each.model_copy(update={"occasional": each.id in names}) for each in FROZEN))


@pytest.fixture
def whole(healthy):
    """All rollouts that a seam with these scenarios needs, by name."""

    def make(*scenarios):
        made = []
        for engine in ("scripted", "vllm"):
            for scenario in scenarios:
                for attempt in (1, 2, 3):
                    evidence = healthy.pi(graded=scenario != "no_verdict", attempt=attempt, scenario=scenario, engine=engine)
                    seam = evidence.manifest.seam.model_copy(update={"scenarios": scenarios})
                    made.append(with_manifest(evidence, seam=seam, attempt_id=f"{engine}-{scenario}-{attempt}"))
        return made

    return make


def verdict(evidences, catalogue):
    return seam_verdict((Rollout.of(evidence, catalogue) for evidence in evidences), catalogue)


def printed(found, catalogue):
    folders = {rollout.manifest.attempt_id: Path("evidence") for rollout in found.rollouts}
    text = io.StringIO()
    print_matrix(build_report((found,), catalogue=catalogue, run_id="run", folders=folders), Console(file=text, width=160))
    return text.getvalue()


def test_one_that_never_came_up_is_not_required_and_the_terminal_names_it(whole):
    evidences = whole("edit_file")
    plain, occasional = verdict(evidences, FROZEN), verdict(evidences, occasionally("REW-002"))
    assert plain.label.startswith("untested: evidence on scripted that exercises REW-002")
    assert (occasional.label, occasional.required, occasional.ran) == ("validated", plain.required - 1, plain.required - 1)
    told = printed(occasional, occasionally("REW-002"))
    assert "  did not come up, so not required: REW-002\n" in told
    assert "did not run" not in told


def test_one_that_came_up_is_required_and_is_not_named(whole):
    found = verdict(whole("edit_file", "no_verdict"), occasionally("REW-002"))
    assert (found.label, found.required) == ("validated", 50)
    assert "did not come up" not in printed(found, FROZEN)


def test_one_that_came_up_on_one_engine_alone_is_not_missed_on_the_other(whole):
    evidences = whole("edit_file") + [each for each in whole("no_verdict") if each.manifest.engine == "scripted"]
    seam = evidences[0].manifest.seam
    found = verdict([with_manifest(each, seam=seam) for each in evidences], occasionally("REW-002"))
    assert (found.label, found.ran, found.required) == ("validated", 50, 50)


@pytest.mark.parametrize(("struck", "status"), [("", "unsupported"), ("vllm-no_verdict-2", "unstable")])
def test_one_that_came_up_and_failed_speaks_against_the_seam(whole, struck, status):
    def broken(evidence):
        hit = evidence.manifest.scenario.reward is None and evidence.manifest.attempt_id.startswith(struck)
        return apply("zero_for_none", evidence) if hit else evidence

    evidences = [broken(evidence) for evidence in whole("edit_file", "no_verdict")]
    found = verdict(evidences, occasionally("REW-002"))
    assert (found.status, found.ok) == (status, False)
    assert found.why.startswith("REW-002 ")


def test_one_that_came_up_and_could_not_be_told_is_missing(whole):
    evidences = [replace_text(evidence, "token_id:", "text ") for evidence in whole("edit_file", "no_verdict")]
    found = verdict(evidences, occasionally("LGP-004"))
    assert "evidence on scripted that exercises LGP-004" in found.why
    assert (found.status, found.ran) == ("untested", found.required - 1)
    assert "did not come up" not in printed(found, FROZEN)


def test_one_that_nobody_judged_is_not_said_to_have_stayed_away(whole):
    catalogue = occasionally("REW-002")
    one = catalogue["TOK-001"]
    rollouts = [Rollout(Outline.of(evidence), (judge_one(evidence, one),)) for evidence in whole("edit_file")]
    found = seam_verdict(rollouts, catalogue)
    assert (found.ran, found.required) == (1, 50)
    told = printed(found, catalogue)
    assert "did not come up" not in told
    assert "did not run: 49 that no test judged" in told
