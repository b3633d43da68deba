"""``report --compare``: two reports, and what got better, worse, appeared and vanished between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness import cli
from pytest_harness.reports.compare import BADNESS, KINDS, STATUSES, compare, shown_changes
from pytest_harness.reports.store import write_report

STANDINGS = ("passed", "failed", "unstable", "deviation", "error", "unverifiable", "not_exercised")


def changed(report, *, name="pi", seam=None, **standings):
    """The report with other standings for some requirements (``PAR_003="failed"``) and other facts of the seam."""
    seams = []
    for each in report.seams:
        requirements = tuple(
            one.model_copy(update={"standing": standings.get(one.id.replace("-", "_"), one.standing)}) for one in each.requirements
        )
        other = each.model_copy(update={"requirements": requirements, **(seam or {})})
        seams.append(other if each.harness == name else each)
    return report.model_copy(update={"seams": tuple(seams)})


@pytest.fixture(scope="module")
def old(judged):
    return judged.report


def test_nothing_changes_between_a_report_and_itself(old):
    assert compare(old, old) == ()
    assert list(shown_changes(())) == ["nothing changed"]


def test_a_must_that_breaks_is_a_regression(old):
    (change,) = compare(old, changed(old, PAR_001="failed"))
    assert (change.kind, change.regression) == ("worse", True)
    assert change.what.startswith("PAR-001 ")
    assert change.told.startswith("was passed; is failing (")


def test_a_must_that_holds_again_is_better_and_no_regression(old):
    (change,) = compare(changed(old, PAR_001="failed"), old)
    assert (change.kind, change.regression) == ("better", False)


def test_a_should_that_is_not_met_any_more_is_worse_and_no_regression(old):
    should = next(one.id for seam in old.seams if seam.harness == "pi" for one in seam.requirements if _met_should(one))
    (change,) = compare(old, changed(old, **{should.replace("-", "_"): "failed"}))
    assert (change.kind, change.regression) == ("worse", False)


def _met_should(requirement):
    return requirement.level == "SHOULD" and requirement.standing == "passed"


def test_flaky_is_told_from_failing(old):
    def results(count, **counts):
        seams = []
        for seam in old.seams:
            one = [
                each.model_copy(update={"standing": count, "results": counts}) if each.id == "PAR-001" else each
                for each in seam.requirements
            ]
            seams.append(seam.model_copy(update={"requirements": tuple(one)}) if seam.harness == "pi" else seam)
        return old.model_copy(update={"seams": tuple(seams)})

    flaky, failing, once = results("unstable", failed=1, passed=2), results("failed", failed=3), results("failed", failed=1)
    (change,) = compare(flaky, failing)
    assert change.kind == "worse"
    assert change.regression
    assert change.told == "was flaky (1 of 3 attempts failed); is failing (3 of 3 attempts failed)"
    (change,) = compare(old, once)
    assert change.told.endswith("is failing (in its only attempt, which cannot tell flaky from failing)")


def test_a_must_that_is_no_longer_put_to_the_test_has_vanished_and_is_a_regression(old):
    (change,) = compare(old, changed(old, PAR_001="not_exercised"))
    assert (change.kind, change.regression) == ("vanished", True)
    assert change.told == "was passed; is not exercised"


def test_what_only_another_set_asks_for_has_appeared_and_what_it_does_not_ask_for_is_no_regression(old):
    pi = next(seam for seam in old.seams if seam.harness == "pi")
    fewer = changed(old, seam={"requirements": tuple(one for one in pi.requirements if one.id != "PAR-001")})
    (change,) = compare(fewer, old)
    assert (change.kind, change.regression) == ("appeared", False)
    (change,) = compare(old, fewer)
    assert (change.kind, change.regression) == ("vanished", True)
    (change,) = compare(old, fewer.model_copy(update={"requirement_set": "2027.01"}))
    assert (change.kind, change.regression) == ("vanished", False)


def test_a_seam_that_nobody_ran_has_vanished_and_is_not_called_failed(old):
    fewer = old.model_copy(update={"seams": tuple(seam for seam in old.seams if seam.harness != "pi")})
    (change,) = compare(old, fewer)
    assert (change.kind, change.what, change.regression) == ("vanished", "verdict", True)
    assert change.told.endswith("nobody ran it")
    (change,) = compare(fewer, old)
    assert (change.kind, change.regression) == ("appeared", False)


def test_both_versions_of_the_harness_are_named(old):
    (change,) = compare(old, changed(old, seam={"version": "1.7.0"}, PAR_001="failed"))
    assert change.subject == "pi 1.6.0 -> 1.7.0 in local"


def test_of_several_versions_those_that_are_the_same_are_compared(old):
    pi = next(seam for seam in old.seams if seam.harness == "pi")
    two = old.model_copy(update={"seams": (pi.model_copy(update={"version": "1.7.0"}), pi)})
    one = old.model_copy(update={"seams": (pi,)})
    (change,) = compare(two, one)
    assert (change.kind, change.subject) == ("vanished", "pi 1.7.0 in local")


@pytest.mark.parametrize("status", STATUSES)
def test_a_verdict_that_falls_is_a_regression(old, status):
    best = changed(old, seam={"status": "validated", "why": ""})
    changes = compare(best, changed(old, seam={"status": status, "why": "a reason"}))
    assert [(change.kind, change.regression) for change in changes] == ([] if status == "validated" else [("worse", True)])


@given(before=st.sampled_from(STANDINGS), after=st.sampled_from(STANDINGS))
def test_for_every_two_standings_what_is_worse_one_way_is_better_or_open_the_other(judged, before, after):
    one, other = (changed(judged.report, PAR_001=standing) for standing in (before, after))
    there, back = compare(one, other), compare(other, one)
    if BADNESS.get(before) == BADNESS.get(after):
        assert there == back == ()
        return
    (there,), (back,) = there, back
    assert {there.kind, back.kind} in ({"worse", "better"}, {"appeared", "vanished"}, {"worse", "vanished"})
    broken = BADNESS.get(after, 0) > 1
    assert there.regression == (there.kind == "vanished" or (there.kind == "worse" and broken))


def test_the_kinds_stand_in_one_order(old):
    changes = compare(changed(old, PAR_001="failed"), changed(old, PAR_002="failed", name="mini-swe-agent", seam={"status": "unsupported"}))
    kinds = [change.kind for change in changes]
    assert kinds == sorted(kinds, key=KINDS.index)


def test_the_command_ends_with_1_on_a_regression_and_0_without_one(old, tmp_path, capsys):
    write_report(old, tmp_path / "old")
    write_report(changed(old, PAR_001="failed"), tmp_path / "new")

    def compared(*arguments):
        with pytest.raises(SystemExit) as end:
            cli.app(["report", "--compare", *map(str, arguments)], standalone_mode=False)
        return end.value.code, *capsys.readouterr()

    code, said, _ = compared(tmp_path / "old", tmp_path / "new")
    assert code == 1
    assert "worse:\n  pi 1.6.0 in local: PAR-001 " in said
    assert said.endswith("[regression]\n1 regression\n")
    assert compared(tmp_path / "new", tmp_path / "old" / "report.json")[0] == 0
    code, _, said = compared(tmp_path / "old")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "--compare needs two reports" in said
    code, _, said = compared(tmp_path / "old", tmp_path / "nowhere")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "is missing" in said
