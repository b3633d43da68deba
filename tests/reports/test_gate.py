"""Expected failures and required verdicts: what is excused, until when, and what an entry that is not true any more costs."""

import datetime
import json
import shutil

import pytest

from pytest_harness import cli
from pytest_harness.evidence import KnownFailure
from pytest_harness.reports.build import build_report
from pytest_harness.reports.counts import is_binding, is_broken
from pytest_harness.reports.entries import VERDICT, entries
from pytest_harness.reports.gate import Gate, GateError
from pytest_harness.requirements import load_catalogue
from pytest_harness.resources import resource
from pytest_harness.saboteurs.surgery import with_manifest
from pytest_harness.verdict import Rollout, seam_verdicts

TODAY = datetime.date(2026, 12, 1)
BROKEN = "LGP-003"
ENTRY = 'reason = "NaN is known"\nlink = "https://example.org/1"\nexpires = 2026-12-31\n'


@pytest.fixture
def gate(tmp_path):
    def read(text, require=None):
        path = tmp_path / "expected.toml"
        path.write_text(text)
        return Gate.read(path, require, harnesses={"pi", "gemini-cli", "mini-swe-agent"}, catalogue=load_catalogue("2026.12"))

    return read


@pytest.fixture(scope="module")
def pi(judged):
    """pi alone, in which NaN was put among the logprobs."""
    return judged.report.model_copy(update={"seams": tuple(seam for seam in judged.report.seams if seam.harness == "pi")})


@pytest.fixture(scope="module")
def broken(pi):
    """The ids of what is broken."""
    return [one.id for one in pi.seams[0].requirements if is_broken(one) and is_binding(one)]


def every(broken, entry=ENTRY, seam="pi"):
    return "".join(f'["{seam}:{name}"]\n{entry}' for name in broken)


def whole(report, **standings):
    """As if every scenario of the seam had been run, with these standings."""
    (seam,) = report.seams
    requirements = tuple(
        one.model_copy(update={"standing": standings.get(one.id.replace("-", "_"), one.standing)}) for one in seam.requirements
    )
    return report.model_copy(update={"seams": (seam.model_copy(update={"scenarios": ("explore",), "requirements": requirements}),)})


def test_without_an_entry_a_broken_seam_is_red(gate, pi, broken):
    assert BROKEN in broken
    settled = gate("").settle(pi, TODAY)
    assert (settled.ok, settled.excused, settled.complaints) == (False, (), ())


@pytest.mark.parametrize("seam", ["pi", "pi-in-local"])
def test_a_seam_all_of_whose_failures_are_expected_is_green_and_keeps_its_verdict(gate, pi, broken, seam):
    settled = gate(every(broken, seam=seam)).settle(pi, TODAY)
    assert settled.ok
    assert len(settled.excused) == len(broken)
    assert settled.report.seams[0].status == "unsupported"
    assert settled.report.ok is False
    said = {entry.id: entry.outcome for entry in entries(settled.report)}
    assert {said[name] for name in (VERDICT, *broken)} == {"noted"}


def test_one_failure_that_is_not_expected_keeps_it_red(gate, pi, broken):
    settled = gate(every(broken[1:])).settle(pi, TODAY)
    assert not settled.ok
    assert {entry.id for entry in entries(settled.report) if entry.outcome == "failed"} == {VERDICT, broken[0]}


def test_an_entry_of_another_sandbox_excuses_nothing(gate, pi, broken):
    assert not gate(every(broken, seam="pi-in-docker")).settle(pi, TODAY).ok


def test_the_last_day_of_an_entry_still_counts_and_the_next_is_one_sentence(gate, pi, broken):
    held = gate(every(broken))
    assert held.settle(pi, datetime.date(2026, 12, 31)).ok
    settled = held.settle(pi, datetime.date(2027, 1, 1))
    assert (settled.ok, settled.excused, len(settled.complaints)) == (False, (), len(broken))
    assert f"pi:{broken[0]} expired on 2026-12-31; look at https://example.org/1 again" in settled.complaints[0]


def test_an_entry_whose_failure_does_not_occur_any_more_is_stale(gate, pi, broken):
    healed = whole(pi, **{name.replace("-", "_"): "passed" for name in broken})
    (complaint,) = gate(every(["PAR-001"])).settle(healed, TODAY).complaints
    assert complaint.endswith("pi:PAR-001 is stale, as it does not fail in pi in local; remove it")


@pytest.mark.parametrize("standing", ["not_exercised", "unverifiable", "unstable", "failed"])
def test_nothing_is_stale_that_was_not_seen_to_hold(gate, pi, standing):
    assert gate(every(["PAR-001"])).settle(whole(pi, PAR_001=standing), TODAY).complaints == ()


def test_nothing_is_stale_while_a_scenario_was_not_run(gate, pi):
    assert gate(every(["PAR-001"])).settle(pi, TODAY).complaints == ()


def test_a_flaky_entry_is_not_stale_where_it_holds(gate, pi):
    assert gate(every(["PAR-001"], ENTRY + "flaky = true\n")).settle(whole(pi), TODAY).complaints == ()


def test_an_entry_of_a_seam_that_did_not_run_is_left_alone(gate, pi):
    assert gate(every(["PAR-001"], seam="gemini-cli")).settle(whole(pi), TODAY).complaints == ()


def test_a_check_of_ours_that_broke_is_never_expected(gate, pi, broken):
    entries_of_all = gate(every([*broken, "PAR-001"]))
    assert not entries_of_all.settle(whole(pi, PAR_001="error"), TODAY).ok


def knowing(report, *known):
    """As if the row of the one seam said so."""
    (seam,) = report.seams
    return report.model_copy(update={"seams": (seam.model_copy(update={"known_failures": known}),)})


def known(requirement, *scenarios, **more):
    return KnownFailure(requirement=requirement, scenarios=scenarios, reason="it is so", **more)


@pytest.mark.parametrize("scenarios", [(), ("explore",), ("edit_file", "explore")])
def test_what_its_row_calls_known_makes_the_run_no_redder_and_the_verdict_no_better(gate, pi, broken, scenarios):
    settled = gate("").settle(knowing(pi, *(known(name, *scenarios) for name in broken)), TODAY)
    assert settled.ok
    assert settled.report.seams[0].status == "unsupported"
    assert len(settled.excused) == len(broken)
    assert settled.excused[0].endswith("known failure: it is so")


def test_a_failure_that_is_known_of_another_scenario_is_red(gate, pi, broken):
    assert not gate("").settle(knowing(pi, *(known(name, "edit_file") for name in broken)), TODAY).ok


@pytest.mark.parametrize(("result", "ok"), [("deviation", True), ("failed", False)])
def test_what_a_known_deviation_excuses_in_another_scenario_is_no_failure_that_nobody_knows(gate, pi, broken, result, ok):
    (seam,) = pi.seams
    other = seam.attempts[0].model_copy(update={"id": "other", "scenario": "edit_file", "results": {result: (BROKEN,)}})
    (one,) = (each for each in seam.requirements if each.id == BROKEN)
    both = one.model_copy(update={"findings": (*one.findings, one.findings[0].model_copy(update={"attempt_id": "other"}))})
    requirements = tuple(both if each is one else each for each in seam.requirements)
    seam = seam.model_copy(update={"attempts": (*seam.attempts, other), "requirements": requirements})
    report = knowing(pi.model_copy(update={"seams": (seam,)}), *(known(name, "explore") for name in broken))
    assert gate("").settle(report, TODAY).ok is ok


def test_a_known_failure_keeps_validated_out_of_reach(gate, pi, broken):
    settled = gate("", "validated").settle(knowing(pi, *(known(name) for name in broken)), TODAY)
    assert settled.complaints == (f"--require validated: pi in local is unsupported: {pi.seams[0].why}",)


@pytest.mark.parametrize(("entry", "said"), [(("PAR-001", "explore"), 1), (("PAR-001",), 1), (("PAR-001", "edit_file"), 0)])
def test_a_known_failure_that_does_not_occur_any_more_is_told_once_its_scenario_was_run(gate, pi, entry, said):
    complaints = gate("").settle(knowing(whole(pi), known(*entry)), TODAY).complaints
    assert len(complaints) == said
    assert all(each == "pi in local: the known failure PAR-001 no longer occurs in explore; correct the row" for each in complaints)


def test_a_known_failure_that_takes_luck_is_not_missed(gate, pi):
    assert gate("").settle(knowing(whole(pi), known("PAR-001", "explore", flaky=True)), TODAY).complaints == ()


def test_a_known_failure_of_some_scenario_is_not_missed_while_one_was_not_run(gate, pi):
    assert gate("").settle(knowing(pi, known("PAR-001")), TODAY).complaints == ()


def test_a_stale_deviation_is_never_excused(gate, pi, broken):
    (seam,) = pi.seams
    stale = pi.model_copy(update={"seams": (seam.model_copy(update={"stale_deviations": ("ATF-001: gone",)}),)})
    assert not gate(every(broken)).settle(stale, TODAY).ok


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f'["pj:PAR-001"]\n{ENTRY}', "there is no harness 'pj'"),
        (f'["pi:PAR-999"]\n{ENTRY}', "has no requirement 'PAR-999'"),
        (f'["pi PAR-001"]\n{ENTRY}', "names no failure; write seam:requirement"),
        (f'["pi:GRF-001"]\n{ENTRY}', "GRF-001 is a SHOULD, which makes no run red"),
        ('["pi:PAR-001"]\nreason = "why"\nexpires = 2026-12-31', "link: Field required"),
        ('["pi:PAR-001"]\nreason = ""\nlink = "https://example.org"\nexpires = 2026-12-31', "reason: "),
        ('["pi:PAR-001"]\nreason = "why"\nlink = "somewhere"\nexpires = 2026-12-31', "link: "),
        ('["pi:PAR-001"]\nreason = "why"\nlink = "https://example.org"\nexpires = "soon"', "expires: "),
        (f'["pi:PAR-001"]\n{ENTRY}versions = "1"', "versions: "),
        ('title = "mine"', "names no failure"),
        ("[", "is not TOML"),
    ],
)
def test_what_is_wrong_with_an_entry_is_one_sentence(gate, text, sentence):
    with pytest.raises(GateError) as caught:
        gate(text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_wrong_entry_is_told(gate):
    with pytest.raises(GateError) as caught:
        gate(f'["pj:PAR-001"]\n{ENTRY}["pi:PAR-999"]\n{ENTRY}')
    assert str(caught.value).count("\n") == 1


def test_validated_is_required_of_every_seam(gate, judged, pi):
    said = gate("", "validated").settle(judged.report, TODAY)
    assert len(said.complaints) == len(judged.report.seams)
    (seam,) = pi.seams
    best = pi.model_copy(update={"seams": (seam.model_copy(update={"status": "validated", "why": "", "requirements": ()}),)})
    assert gate("", "validated").settle(best, TODAY).ok
    (complaint,) = gate("", "validated").settle(pi.model_copy(update={"seams": ()}), TODAY).complaints
    assert complaint == "--require validated: nothing was judged"
    with pytest.raises(GateError, match="what can be required is validated"):
        gate("", "perfect")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("gated")
    name = "pi/local/scripted/no_verdict/1"
    shutil.copytree(resource("fixtures", "evidence") / name, root / "evidence" / name, ignore=shutil.ignore_patterns("findings.json"))
    (root / "expected.toml").write_text(every([BROKEN], ENTRY.replace("2026-12-31", "9999-12-31")))
    return root


def test_a_run_with_an_expected_failure_is_green_and_shows_it(folder, run_pytest):
    common = ("--replay=evidence", "--sabotage=nan_logprob", "-k", f"rollout or {BROKEN}")
    assert run_pytest(folder, *common).returncode == 1
    done = run_pytest(folder, *common, "--expected-failures=expected.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 xfailed" in done.stdout
    assert "expected failure until 9999-12-31: NaN is known (https://example.org/1)" in done.stdout
    done = run_pytest(folder, *common, "--expected-failures=expected.toml", "--require=validated")
    assert done.returncode == 1
    assert "GATE: --require validated: pi in local is unsupported" in done.stdout
    done = run_pytest(folder, *common, "--expected-failures=nowhere.toml")
    assert done.returncode == 4
    assert "nowhere.toml is missing" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_the_command_is_held_to_the_same_gate(folder, tmp_path, capsys):
    def judged(*arguments):
        with pytest.raises(SystemExit) as end:
            cli.app(["judge", str(folder / "evidence"), "--report-dir", str(tmp_path), *arguments], standalone_mode=False)
        return end.value.code, *capsys.readouterr()

    assert judged()[0] == 0
    code, said, _ = judged("--require", "validated")
    assert code == 1
    assert "GATE: --require validated: pi in local is untested" in said
    (tmp_path / "expected.toml").write_text(every([BROKEN], ENTRY.replace("2026-12-31", "2020-01-01")))
    code, said, _ = judged("--expected-failures", str(tmp_path / "expected.toml"))
    assert code == 1
    assert "pi:LGP-003 expired on 2020-01-01" in said
    assert json.loads((tmp_path / "report.json").read_text())["ok"] is True


def test_a_report_of_evidence_between_which_the_row_came_to_say_more_says_all_of_it(healthy, tmp_path):
    known = KnownFailure(requirement="PAR-001", reason="it loses one")
    said = ({"scenarios": ("edit_file",)}, {"scenarios": ("edit_file", "explore"), "known_failures": (known,)})
    evidences = [healthy.pi(attempt=number) for number in (1, 2)]
    rows = [each.manifest.seam.model_copy(update=more) for each, more in zip(evidences, said, strict=True)]
    changed = [with_manifest(each, seam=row) for each, row in zip(evidences, rows, strict=True)]
    catalogue = load_catalogue("2026.12")
    folders = {each.manifest.attempt_id: tmp_path for each in changed}
    report = build_report(
        seam_verdicts([Rollout.of(each, catalogue) for each in changed], catalogue), catalogue=catalogue, run_id="run", folders=folders
    )
    (seam,) = report.seams
    assert (seam.scenarios, seam.known_failures) == (("edit_file", "explore"), (known,))
