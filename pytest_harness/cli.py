"""The command's door: ``harness-conformance`` and what stands below ``@app.command`` here. Thin: others do the work."""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from pytest_harness import __version__
from pytest_harness.bisection import BisectError
from pytest_harness.cluster import ClusterError
from pytest_harness.collect import CollectError, LedgerError
from pytest_harness.evidence import Evidence, EvidenceError
from pytest_harness.places import BISECT_DIR, EVIDENCE_DIR, REPLAY_DIR, REPORT_DIR, ROLLOUT_DIR
from pytest_harness.provision import ProvisionError
from pytest_harness.pushing import PushError
from pytest_harness.reports.published import PublishError
from pytest_harness.requirements import Catalogue, RequirementsError, catalogue_versions, load_catalogue, read_set
from pytest_harness.scenarios import ScenarioError, ScenarioTable
from pytest_harness.seams import SeamError, SeamTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pytest_harness.reports.files import EvidenceOf
    from pytest_harness.reports.gate import Settled
    from pytest_harness.reports.model import Report

app = typer.Typer(
    name="harness-conformance",
    help="Decides, with evidence, whether the tokens of an agent harness may be trained on. To run one: pytest --harness=NAME",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

USER_ERRORS = (
    SeamError,
    ScenarioError,
    RequirementsError,
    EvidenceError,
    ProvisionError,
    ClusterError,
    CollectError,
    LedgerError,
    PublishError,
    PushError,
    BisectError,
)
USAGE_ERROR = 4
"""The exit code of a command that was asked for what cannot be, as pytest's."""
INTERRUPTED = 130
"""The exit code that shells give to what Ctrl-C ended."""


ExpectedFailures = Annotated[
    Path | None,
    typer.Option("--expected-failures", metavar="FILE", help="TOML: failures that are expected, each with reason, link and expiry."),
]
Export = Annotated[
    Path | None, typer.Option("--export", metavar="FILE", help="Rows for a trainer, .jsonl or .parquet. Exit code 1 if any is refused.")
]
Rehearsal = Annotated[bool, typer.Option("--rehearsal", help="With --export: what is no training data too, with a mark.")]
PolicyVersion = Annotated[
    str | None, typer.Option("--policy-version", metavar="TEXT", help="With --export: the policy, where the evidence does not tell.")
]
Require = Annotated[str | None, typer.Option("--require", metavar="STATUS", help="Exit code 1 unless every seam is this: validated.")]


def main() -> None:
    """Run the command; what a user did wrong is one sentence and exit code 4."""
    try:
        app()
    except USER_ERRORS as error:
        fail(str(error))


def fail(sentence: str) -> NoReturn:
    """Say what is wrong on stderr and end with exit code 4."""
    Console(stderr=True).print(f"error: {sentence}", highlight=False, markup=False, soft_wrap=True, style="red")
    raise SystemExit(USAGE_ERROR)


def _folder(text: str | Path) -> Path:
    """The folder that an argument names. An empty one, as of a variable that is not set, would be the current folder."""
    if text == "":
        fail("an empty path names no folder; name the folder, or . for the current one")
    try:
        Path(text).resolve()
    except (OSError, RuntimeError, ValueError):  # a link that leads to itself, or a NUL
        fail(f"{str(text)!r} leads nowhere; name a folder")
    return Path(text)


Seams = Annotated[
    list[Path] | None, typer.Option("--seams", parser=_folder, metavar="DIR", help="A folder with seam rows of your own; repeatable.")
]
Scenarios = Annotated[
    list[Path] | None, typer.Option("--scenarios", parser=_folder, metavar="DIR", help="A folder with scenarios of your own; repeatable.")
]


def _console() -> Console:
    """On a terminal as wide as that, else wide enough that no table is broken. What cannot be encoded is written as its escape."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(width=None if sys.stdout.isatty() else 160)


def _version(asked: bool) -> None:
    if asked:
        _console().print(f"harness-conformance {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def command(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")] = False) -> None:
    """The options of every command."""


@app.command()
def info(
    seams: Seams = None,
    scenarios: Scenarios = None,
) -> None:
    """List the harnesses, scenarios, requirement sets and saboteurs that are there."""
    from pytest_harness import saboteurs  # noqa: PLC0415 (only this command lists them)

    console = _console()
    table = SeamTable.load(*(seams or ()))
    rows = Table("harness", "version", "dialect", "stream", "trajectory", "scenarios", box=None, pad_edge=False)
    for name in table:
        seam = table[name]
        rows.add_row(
            name, seam.version or "as it is", seam.dialect, "yes" if seam.streams else "no", seam.trajectory, ", ".join(seam.scenarios)
        )
    console.print(f"harness-conformance {__version__}", highlight=False)
    console.print(rows)
    rows = Table("not run", "", box=None, pad_edge=False)
    for each in table.unavailable:
        rows.add_row(each.name, each.status)
    console.print(rows)
    table_of_scenarios = ScenarioTable.load(*(scenarios or ()))
    rows = Table("scenario", "", box=None, pad_edge=False)
    for name in table_of_scenarios:
        rows.add_row(name, table_of_scenarios[name].title)
    console.print(rows)
    for version in catalogue_versions():
        console.print(f"requirement set {version}: {len(read_set(version))} requirements", highlight=False)
    console.print(f"saboteurs: {', '.join(saboteurs.names())}", highlight=False)


@app.command()
def rollout(
    *,
    harness: Annotated[list[str] | None, typer.Option(metavar="NAME[@VERSION]", help="A seam by name; repeatable.")] = None,
    scenario: Annotated[
        list[str] | None, typer.Option("--scenario", "--task", metavar="NAME", help="Only this scenario; repeatable. All by default.")
    ] = None,
    engine: Annotated[str, typer.Option(metavar="NAME", help="What samples: scripted, or vllm, started for all.")] = "scripted",
    llm_url: Annotated[str | None, typer.Option(metavar="URL", help="An engine that runs already, instead of --engine.")] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --llm-url: which model, if several. With --engine=vllm: what a vllm of yours serves."),
    ] = None,
    llm_key_env: Annotated[str | None, typer.Option(metavar="NAME", help="With --llm-url: the variable that holds its key.")] = None,
    train: Annotated[bool, typer.Option("--train", help="Refuse an engine whose replies may not be trained on.")] = False,
    attempts: Annotated[int, typer.Option("-n", "--attempts", metavar="N", help="Episodes of each scenario.")] = 1,
    out: Annotated[Path, typer.Option(parser=_folder, metavar="DIR", help="Where the collection is, or will be.")] = ROLLOUT_DIR,
    parallel: Annotated[
        int | None, typer.Option(metavar="P", help="Episodes at the same time; 1, or with --ray as many as the cluster has processors.")
    ] = None,
    tries: Annotated[int, typer.Option(metavar="K", help="Tries of an episode that fails in its surroundings.")] = 3,
    retry_dropped: Annotated[bool, typer.Option("--retry-dropped", help="Run again what was dropped after all its tries.")] = False,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run the episodes on a cluster of Ray: auto, HOST:PORT, ray://HOST:PORT; local for a trial."),
    ] = None,
    evidence_to: Annotated[
        str | None, typer.Option(metavar="URL", help="With --ray: where the nodes bring the evidence, s3://…; back into --out by default.")
    ] = None,
    export: Export = None,
    rehearsal: Rehearsal = False,
    policy_version: PolicyVersion = None,
    seams: Seams = None,
    scenarios: Scenarios = None,
) -> None:
    """Collect episodes: evidence, and a ledger of them. The same command goes on where it stopped. Exit code 1 if any was dropped."""
    from pytest_harness.collect.collector import Interrupted  # noqa: PLC0415 (only this command collects)
    from pytest_harness.collect.command import Asked, collect_rollouts, evidence_of  # noqa: PLC0415
    from pytest_harness.collect.ledger import LEDGER  # noqa: PLC0415

    _check_export(export)
    key = _secret("--llm-key-env", llm_key_env)
    asked = Asked(
        harness or (),
        scenario or (),
        engine,
        attempts,
        parallel,
        tries,
        retry_dropped,
        seams or (),
        scenarios or (),
        llm_url,
        model,
        key,
        train,
        ray,
        evidence_to,
    )
    console, interrupted = _console(), False
    try:
        collection = collect_rollouts(asked, out, console)
    except Interrupted as interrupt:
        collection, interrupted = interrupt.collection, True
    count = len(collection.episode_ids)
    console.print(f"{count} {'episode' if count == 1 else 'episodes'}: {collection.tally}", highlight=False)
    console.print(f"ledger: {out / LEDGER}", highlight=False, markup=False, soft_wrap=True)
    if interrupted:
        raise SystemExit(INTERRUPTED)
    evidences = evidence_of(asked, out, collection.episode_ids)
    exported = _export(export, evidences, load_catalogue(None), console, rehearsal=rehearsal, policy_version=policy_version)
    raise SystemExit(1 if collection.tally.counts["dropped"] or not exported else 0)


@app.command()
def judge(
    *,
    evidence: Annotated[
        Path, typer.Argument(parser=_folder, metavar="EVIDENCE", help=f"A folder that holds evidence, such as {EVIDENCE_DIR}.")
    ],
    requirements: Annotated[str | None, typer.Option(metavar="VERSION", help="The requirement set; the newest by default.")] = None,
    report_dir: Annotated[Path, typer.Option(parser=_folder, metavar="DIR", help="Where the report is written.")] = REPLAY_DIR,
    fill_atif: Annotated[
        Path | None,
        typer.Option(
            parser=_folder, metavar="DIR", help="Copy the trajectories to this folder, with the captured ids and logprobs filled in."
        ),
    ] = None,
    expected_failures: ExpectedFailures = None,
    require: Require = None,
    export: Export = None,
    rehearsal: Rehearsal = False,
    policy_version: PolicyVersion = None,
    account: Annotated[bool, typer.Option("--account", help="Say what each harness took and solved; into accounting.json too.")] = False,
    prices: Annotated[
        str | None, typer.Option(metavar="PROMPT,SAMPLED", help="With --account: of a million prompt tokens, and of a million sampled.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Judge on a cluster of Ray: auto, HOST:PORT, ray://HOST:PORT; local for a trial."),
    ] = None,
) -> None:
    """Judge stored evidence again, without pytest: findings, matrix, report. Exit code 1 if something speaks against a seam."""
    from pytest_harness.reports.again import ReportError, judge_again, judge_here  # noqa: PLC0415
    from pytest_harness.reports.findings import write_findings  # noqa: PLC0415
    from pytest_harness.reports.on_ray import judging_on  # noqa: PLC0415
    from pytest_harness.reports.terminal import print_findings, print_matrix, print_remarks, print_settled  # noqa: PLC0415

    _check_export(export)
    catalogue = load_catalogue(requirements)
    try:
        with contextlib.nullcontext(judge_here) if ray is None else judging_on(ray) as judges:
            judged = judge_again([evidence], catalogue, judges)
    except ReportError as error:
        fail(str(error))
    for folder, each in judged.rollouts.items():
        with contextlib.suppress(OSError):  # evidence may well lie where nothing can be written
            write_findings(folder, each, catalogue.version)
    console = _console()
    settled = _settle(judged.report, catalogue, expected_failures, require)
    print_findings(settled.report, console)
    print_remarks(settled.report, console)
    print_matrix(settled.report, console)
    print_settled(settled, console)
    _write_forms(settled.report, report_dir, judged.evidence_of, console)
    evidences = judged.evidences
    if account or prices is not None:
        _account(evidences.values(), prices, report_dir, console)
    filled = fill_atif is None or _fill(fill_atif, evidences, catalogue, console)
    exported = _export(export, evidences.values(), catalogue, console, rehearsal=rehearsal, policy_version=policy_version)
    raise SystemExit(0 if settled.ok and filled and exported else 1)


@app.command()
def report(
    *,
    folders: Annotated[
        list[Path],
        typer.Argument(parser=_folder, metavar="DIR...", help=f"Folders that hold evidence, or one with a report, such as {REPORT_DIR}."),
    ],
    compare: Annotated[
        bool, typer.Option("--compare", help="Of two reports, OLD NEW: what got better and worse. Exit code 1 if something got worse.")
    ] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Of the shards of one run, DIR...: one report. Exit code 1 if it or a shard is not well.")
    ] = False,
    requirements: Annotated[str | None, typer.Option(metavar="VERSION", help="Of evidence: the requirement set; the newest.")] = None,
    report_dir: Annotated[
        Path | None,
        typer.Option(parser=_folder, metavar="DIR", help=f"Where it is written; of evidence {REPLAY_DIR}, of a report its own folder."),
    ] = None,
    expected_failures: ExpectedFailures = None,
    require: Require = None,
) -> None:
    """Write the report in every form: a page to open in a browser, JSON, Markdown, CTRF, JUnit, badge. Exit code 0 if it is written."""
    from pytest_harness.reports.again import ReportError, judge_again, read_report, stored_evidence  # noqa: PLC0415
    from pytest_harness.reports.store import REPORT  # noqa: PLC0415

    console = _console()
    if compare:
        _compare(folders, console)
    if merge:
        _merge(
            folders, load_catalogue(requirements), report_dir or REPORT_DIR, console, expected_failures=expected_failures, require=require
        )
    if expected_failures is not None or require is not None:
        fail("--expected-failures and --require are for runs: give them to pytest, to judge, or to report --merge")
    written = [folder for folder in folders if (folder / REPORT).exists()]
    try:
        if not written:
            judged = judge_again(folders, load_catalogue(requirements))
            _write_forms(judged.report, report_dir or REPLAY_DIR, judged.evidence_of, console)
        elif len(folders) > 1:
            fail(f"{written[0]} holds a report already, and is no evidence; name it alone, or only folders that hold evidence")
        elif requirements is not None:
            fail(f"{written[0]} holds a report, which is not judged again; name its evidence to judge it by {requirements}")
        else:
            told = read_report(written[0])
            _write_forms(told, report_dir or written[0], stored_evidence(told), console)
    except ReportError as error:
        fail(str(error))


def _compare(folders: list[Path], console: Console) -> NoReturn:
    """Say what changed between two reports; exit code 1 for a regression."""
    from pytest_harness.reports.again import ReportError, read_report  # noqa: PLC0415
    from pytest_harness.reports.compare import compare, shown_changes  # noqa: PLC0415

    if len(folders) != 2:
        fail(f"--compare needs two reports, the old one and the new one, and {len(folders)} are named: report --compare OLD NEW")
    try:
        old, new = map(read_report, folders)
    except ReportError as error:
        fail(str(error))
    changes = compare(old, new)
    for line in shown_changes(changes):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    regressions = sum(change.regression for change in changes)
    console.print(f"{regressions} {'regression' if regressions == 1 else 'regressions'}", highlight=False)
    raise SystemExit(1 if regressions else 0)


def _merge(
    folders: list[Path], catalogue: Catalogue, report_dir: Path, console: Console, *, expected_failures: Path | None, require: str | None
) -> NoReturn:
    """Write the report of all shards together; exit code 1 if something speaks against a seam, or a part is missing."""
    from pytest_harness.reports.again import ReportError  # noqa: PLC0415
    from pytest_harness.reports.shards import merge  # noqa: PLC0415
    from pytest_harness.reports.terminal import print_findings, print_matrix, print_remarks, print_settled  # noqa: PLC0415

    try:
        merged = merge(folders, catalogue)
    except ReportError as error:
        fail(str(error))
    settled = _settle(merged.judged.report, catalogue, expected_failures, require)
    print_findings(settled.report, console)
    print_remarks(settled.report, console)
    print_matrix(settled.report, console)
    print_settled(settled, console)
    _write_forms(settled.report, report_dir, merged.judged.evidence_of, console)
    for sentence in merged.missing:
        console.print(f"MISSING: {sentence}", highlight=False, markup=False, soft_wrap=True, style="bold red")
    raise SystemExit(0 if settled.ok and not merged.missing else 1)


def _settle(told: Report, catalogue: Catalogue, expected_failures: Path | None, require: str | None) -> Settled:
    """The report held against what the options ask for."""
    from pytest_harness.reports.gate import Gate, GateError  # noqa: PLC0415

    harnesses = {*SeamTable.load(), *(seam.harness for seam in told.seams)}
    try:
        gate = Gate.read(expected_failures, require, harnesses=harnesses, catalogue=catalogue)
    except GateError as error:
        fail(str(error))
    return gate.settle(told, datetime.datetime.now(datetime.UTC).date())


def _write_forms(told: Report, folder: Path, evidence_of: EvidenceOf, console: Console) -> None:
    """Write all forms of a report and say where."""
    from pytest_harness.reports.build import shown  # noqa: PLC0415
    from pytest_harness.reports.files import PAGE, write_files  # noqa: PLC0415

    try:
        path = write_files(told, folder, evidence_of)
    except OSError as error:
        fail(f"--report-dir {folder} cannot be written ({error.strerror}); name a folder of yours")
    for each in (path, path.with_name(PAGE)):
        console.print(f"report: {shown(each)}", highlight=False, markup=False, soft_wrap=True)


def _check_export(path: Path | None) -> None:
    """Refuse what could not be written, before anything runs."""
    from pytest_harness.training import ExportError, check_target  # noqa: PLC0415

    try:
        if path is not None:
            check_target(path)
    except ExportError as error:
        fail(str(error))


def _export(
    path: Path | None,
    evidences: Iterable[Evidence],
    catalogue: Catalogue,
    console: Console,
    *,
    rehearsal: bool,
    policy_version: str | None,
) -> bool:
    """Write rows for a trainer and say which episodes have none; whether all of them have."""
    if path is None:
        return True
    from pytest_harness.training import ExportError, export  # noqa: PLC0415

    try:
        exported = export(path, evidences, catalogue, rehearsal=rehearsal, policy_version=policy_version)
    except ExportError as error:
        fail(str(error))
    for sentence in exported.refused:
        console.print(f"not exported: {sentence}", highlight=False, markup=False, soft_wrap=True)
    told = f"exported {exported.rows} rows, of {exported.episodes} of {exported.episodes + len(exported.refused)} episodes, to {path}"
    console.print(told, highlight=False, markup=False, soft_wrap=True)
    return not exported.refused


def _account(evidences: Collection[Evidence], prices: str | None, report_dir: Path, console: Console) -> None:
    """Say what each harness took and solved."""
    from pytest_harness.training import ExportError, account, evaluation_table  # noqa: PLC0415
    from pytest_harness.training.telling import print_accounts, read_prices, write_accounts  # noqa: PLC0415

    try:
        accounts = account(evidences, None if prices is None else read_prices(prices))
        table = evaluation_table(evidences)
        print_accounts(accounts, table, console)
        path = write_accounts(accounts, table, report_dir)
    except ExportError as error:
        fail(str(error))
    console.print(f"accounting: {path}", highlight=False, markup=False, soft_wrap=True)


def _fill(root: Path, evidences: Mapping[Path, Evidence], catalogue: Catalogue, console: Console) -> bool:
    """Write filled trajectories and say which were not; whether all of them were."""
    from pytest_harness.filling import fill_into  # noqa: PLC0415

    try:
        written, refused = fill_into(root, evidences, catalogue)
    except OSError as error:
        fail(f"--fill-atif {root} cannot be written ({error.strerror}); name a folder of yours")
    for sentence in refused:
        console.print(f"not filled: {sentence}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"filled trajectories: {len(written)} of {len(evidences)} in {root}", highlight=False, markup=False, soft_wrap=True)
    return not refused


@app.command()
def publish(
    evidence: Annotated[Path, typer.Argument(parser=_folder, metavar="EVIDENCE", help=f"A folder with evidence, such as {EVIDENCE_DIR}.")],
    into: Annotated[Path, typer.Option(parser=_folder, metavar="DIR", help="Where the published reports are.")] = Path("reports"),
    readme: Annotated[Path | None, typer.Option(metavar="FILE", help="A page whose table between the markers is made anew.")] = None,
    seams: Seams = None,
) -> None:
    """Publish the report of each seam and the matrix, from evidence. Exit code 1 if nothing was, or something is to be run again."""
    from pytest_harness.reports.publish import publish as publish_reports  # noqa: PLC0415 (only this command publishes)

    outcome = publish_reports(evidence, into, seams=SeamTable.load(*(seams or ())), catalogue=load_catalogue(None), readme=readme)
    console = _console()
    for sentence in (*(f"not published: {each}" for each in outcome.passed_over), *(f"open: {each}" for each in outcome.open)):
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)
    console.print(f"{len(outcome.written)} reports published in {into}", highlight=False, markup=False, soft_wrap=True)
    raise SystemExit(1 if outcome.open or not outcome.written else 0)


@app.command()
def push(
    *,
    folders: Annotated[
        list[Path], typer.Argument(parser=_folder, metavar="DIR...", help=f"Evidence and reports, such as {EVIDENCE_DIR} {REPORT_DIR}.")
    ],
    to: Annotated[str, typer.Option(metavar="URL", help="A folder, s3://…, gs://…, sftp://…; of the Hub hf://datasets/OWNER/NAME.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go where.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Send also over what is there and differs.")] = False,
    packed: Annotated[bool, typer.Option("--packed", help="Send also what is compressed, in which no secret can be seen.")] = False,
) -> None:
    """Send evidence and reports to a file system or a dataset of the Hub. Secrets are refused; what is there is not sent again."""
    from pytest_harness.pushing.command import push as push_records  # noqa: PLC0415 (only this command sends)

    try:
        push_records(folders, to, _console(), dry_run=dry_run, replace=replace, packed=packed)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


@app.command()
def bisect(
    harness: Annotated[str, typer.Argument(metavar="HARNESS", help="A seam by name.")],
    good: Annotated[str, typer.Argument(metavar="GOOD", help="A release that meets the requirement.")],
    bad: Annotated[str, typer.Argument(metavar="BAD", help="A later one that breaks it.")],
    *,
    requirement: Annotated[str, typer.Option(metavar="ID", help="The requirement, such as PAR-004.")],
    scenario: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only by this scenario; repeatable.")] = None,
    engine: Annotated[str, typer.Option(metavar="NAME", help="What samples: scripted, or vllm, started for all.")] = "scripted",
    evidence_dir: Annotated[Path, typer.Option(parser=_folder, metavar="DIR", help="Where the evidence is kept.")] = BISECT_DIR,
    seams: Seams = None,
    scenarios: Scenarios = None,
) -> None:
    """Find the release of a harness that broke a requirement, by halving between a good and a bad one."""
    from pytest_harness.bisection.command import Asked, bisect_releases  # noqa: PLC0415 (only this command bisects)

    asked = Asked(harness, good, bad, requirement, scenario or (), engine, evidence_dir / harness, seams or (), scenarios or ())
    console = _console()
    for line in bisect_releases(asked, console).lines(harness):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command()
def serve(
    *,
    llm_url: Annotated[str | None, typer.Option(metavar="URL", help="The engine, e.g. http://127.0.0.1:8000/v1. Required.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model; not needed where the engine serves one.")] = None,
    llm_key_env: Annotated[str | None, typer.Option(metavar="NAME", help="The variable that holds the engine's key.")] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; another than loopback needs --admin-key-env.")] = "127.0.0.1",
    capture_port: Annotated[int, typer.Option(metavar="PORT", help="For harnesses; 0 is a free one.")] = 0,
    control_port: Annotated[int, typer.Option(metavar="PORT", help="For the admin API; 0 is a free one.")] = 0,
    one_port: Annotated[bool, typer.Option("--one-port", help="Only the control port, with the capture below /capture.")] = False,
    admin_key_env: Annotated[str | None, typer.Option(metavar="NAME", help="The variable that holds the admin key.")] = None,
    no_admin_key: Annotated[bool, typer.Option("--no-admin-key", help="An admin API without a key; on loopback only.")] = False,
    journal_dir: Annotated[
        Path | None, typer.Option(parser=_folder, metavar="DIR", help="Where calls are recorded; a new temporary folder by default.")
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Processes that serve the same ports.")] = 1,
    level: Annotated[str, typer.Option(help="What the engine must return: tokens, logprobs or text. Only tokens may train.")] = "tokens",
    train: Annotated[bool, typer.Option("--train", help="Refuse an engine whose replies may not be trained on.")] = False,
    durable: Annotated[bool, typer.Option("--durable", help="Bring each call to the disk before its reply is whole.")] = False,
) -> None:
    """Run the capture proxy as a server: sessions over an admin API, each with a key for one harness. Ends on SIGTERM or SIGINT."""
    from pytest_harness.capture import UpstreamError  # noqa: PLC0415 (only this command needs a server)
    from pytest_harness.capture.identity import SessionError  # noqa: PLC0415
    from pytest_harness.capture.probe import LEVELS, ProbeError  # noqa: PLC0415
    from pytest_harness.capture.serve import Config, ServeError, announce  # noqa: PLC0415
    from pytest_harness.capture.serve import serve as run  # noqa: PLC0415

    known = next((name for name in LEVELS if name == level), None)
    if known is None:
        fail(f"there is no level {level}; choose one of {', '.join(reversed(LEVELS))}")
    try:
        config = Config(
            llm_url=llm_url or "",
            model=model,
            llm_key=_secret("--llm-key-env", llm_key_env),
            host=host,
            capture_port=capture_port,
            control_port=control_port,
            one_port=one_port,
            admin_key=_secret("--admin-key-env", admin_key_env),
            open_admin=no_admin_key,
            journal_dir=journal_dir,
            workers=workers,
            level=known,
            train=train,
            durable=durable,
        )
        run(config, told=lambda served: announce(served, admin_key_env))
    except (ServeError, ProbeError, UpstreamError, SessionError) as error:
        fail(str(error))


def _secret(option: str, variable: str | None) -> str | None:
    """The value of the variable that an option names."""
    if variable is None:
        return None
    value = os.environ.get(variable)
    if not value:
        fail(f"{option} names {variable}, and that variable is not set; set it to the key")
    return value


@app.command()
def doctor(
    *,
    seams: Seams = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove installed harnesses from the cache: those named, or all.")] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Take away what killed runs have left: processes, folders, containers of ours, and no others.")
    ] = False,
    evidence_dir: Annotated[
        list[Path] | None, typer.Option(parser=_folder, metavar="DIR", help="Look here too for what killed rollouts have left; repeatable.")
    ] = None,
    install_vllm: Annotated[bool, typer.Option("--install-vllm", help="Install what --engine=vllm starts ahead of its first use.")] = False,
    names: Annotated[list[str] | None, typer.Argument(metavar="[HARNESS]...", help="With --clear: only these.")] = None,
) -> None:
    """Say what is here, what is missing and what to do about it, and how large the cache is."""
    from pytest_harness import doctor as work  # noqa: PLC0415 (it starts a sandbox to see whether it can)

    console = _console()
    if names and not clear:
        fail(f"doctor looks at everything; to remove {', '.join(names)} from the cache write doctor --clear {' '.join(names)}")
    places = [work.HERE, *(evidence_dir or ())]
    if clean and (clear or install_vllm):
        fail("--clean takes away what killed runs have left, and nothing of the cache; run it apart from the other two")
    if clean:
        _clean(places, console)
        return
    if clear and install_vllm:
        fail("--clear removes what is in the cache and --install-vllm puts something into it; run one after the other")
    if install_vllm:
        console.print(work.install_vllm(lambda said: console.print(said, highlight=False, markup=False, soft_wrap=True)), highlight=False)
        return
    if clear:
        console.print(f"{decimal(work.clear(names=names or None))} freed", highlight=False)
        return
    table = SeamTable.load(*(seams or ()))
    with console.status("looking at what is here") if console.is_terminal else contextlib.nullcontext():
        lines = work.inspect(table, here=places)
    rows = Table(box=None, pad_edge=False, show_header=False)
    for line in lines:
        size = "" if line.size is None else decimal(line.size)
        detail = f"{line.detail}; {line.remedy}" if line.remedy else line.detail
        style = None if line.state == "ok" else "red" if line.fatal else "yellow"
        rows.add_row(line.subject, line.state, size, escape(detail), style=style)
    console.print(rows)
    raise SystemExit(1 if any(line.fatal for line in lines) else 0)


def _clean(places: list[Path], console: Console) -> None:
    from pytest_harness.cleaning import CleaningError  # noqa: PLC0415 (only the doctor cleans)
    from pytest_harness.doctor import clean  # noqa: PLC0415 (likewise)

    try:
        done, failure = clean(places), None
    except CleaningError as error:
        done, failure = list(error.done), str(error)
    for sentence in done or ["nothing was left" if failure is None else "nothing could be removed"]:
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)
    if failure is not None:
        fail(failure)


@app.command()
def sandboxes() -> None:
    """List the backends of Harbor in which a harness can be judged, and what is lacking for each on this machine."""
    from pytest_harness.sandboxes.catalogue import bundled_catalogue  # noqa: PLC0415 (only this command lists them)

    rows = Table("sandbox", "runs", "reaches the proxy by", "on this machine", box=None, pad_edge=False)
    for name, backend in bundled_catalogue().items():
        rows.add_row(name, backend.runs, "loopback" if backend.reach == "loopback" else "--public-url or --tunnel", Text(backend.state))
    console = _console()
    console.print("of ours: local; docker and podman, where the engine runs", highlight=False)
    console.print(rows)


@app.command("new-seam")
def new_seam(
    *,
    name: Annotated[str, typer.Argument(help="The name of the harness: lower-case letters, digits and hyphens.")],
    npm: Annotated[str | None, typer.Option(metavar="PKG[@VERSION]", help="The harness is this package of npm.")] = None,
    pypi: Annotated[str | None, typer.Option(metavar="PKG[==VERSION]", help="The harness is this package of PyPI.")] = None,
    command: Annotated[
        str | None,
        typer.Option(metavar="'PROGRAM [OPTIONS {instruction}]'", help="Its program on this machine or of its package; how it is started."),
    ] = None,
    discover: Annotated[bool, typer.Option("--discover", help="Install it, run it in the sandbox, and find out the rest.")] = False,
    tries: Annotated[int, typer.Option(metavar="N", help="With --discover: at most so many runs.")] = 30,
    limit: Annotated[float, typer.Option(metavar="SECONDS", help="With --discover: the time limit of each.")] = 45,
    folder: Annotated[Path, typer.Option("--into", parser=_folder, metavar="DIR", help="The folder for the row.")] = Path("seams"),
) -> None:
    """Write a row for a harness with what can be found out about it, and say how to run it."""
    from pytest_harness.discovery.command import Asked, new_row  # noqa: PLC0415 (only this command looks for a harness)

    path = folder / f"{name}.toml"
    try:
        if path.exists():
            fail(f"{path} is there already; choose another name or remove it first")
        text = new_row(Asked(name, npm, pypi, command, discover, tries, limit), _console())
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{path} cannot be written ({error.strerror}); name a folder of yours with --into")
    then = "run it" if discover else "fill it in, then run"
    _console().print(f"{path} written; {then}: pytest --harness={name} --seams={folder}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
