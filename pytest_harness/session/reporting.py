"""From what the tests judged to the report of the run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_harness.contract import Judgement, Outline
from pytest_harness.evidence import read_evidence
from pytest_harness.reports.build import build_report
from pytest_harness.reports.findings import write_findings
from pytest_harness.reports.model import LeftOut, Report
from pytest_harness.session.judged import Judged
from pytest_harness.session.plan import Plan
from pytest_harness.verdict import Rollout, seam_verdicts


def report_of(plan: Plan, judged: Iterable[Judged], folders: Iterable[Path]) -> Report:
    """The report of the attempts in ``folders`` by what was judged of them; a requirement that no test judged is not exercised."""
    judgements: dict[Path, list[Judgement]] = {folder: [] for folder in folders}
    for one in judged:
        judgements[one.folder].append(one.judgement)
    rollouts = []
    places = {}
    for folder, said in judgements.items():
        evidence = plan.sabotaged(read_evidence(folder))
        places[evidence.manifest.attempt_id] = folder
        rollout = Rollout(Outline.of(evidence), tuple(said))
        rollouts.append(rollout)
        if plan.keeps_findings:
            write_findings(folder, rollout, plan.catalogue.version)
    verdicts = seam_verdicts(rollouts, plan.catalogue)
    left_out = [LeftOut(rollout="{}-in-{}-{}".format(*each.cell), why=each.why) for each in plan.left_out]
    report = build_report(verdicts, catalogue=plan.catalogue, run_id=plan.run_id, folders=places, sabotage=plan.sabotage, left_out=left_out)
    return report.model_copy(update={"shard": plan.shard})
