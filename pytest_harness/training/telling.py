"""Accounts and evaluation tables for people and programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from pytest_harness.textfile import write_text
from pytest_harness.training.accounting import Account, Prices
from pytest_harness.training.tables import Table
from pytest_harness.training.writing import ExportError

ACCOUNTING = "accounting.json"
NONE = "-"
"""What is not known, which is not 0."""
DERIVED = ("tokens", "truncated_share", "tokens_per_solved", "cost", "cost_per_solved")


def read_prices(text: str) -> Prices:
    """``0.5,1.5``: of a million prompt tokens and of a million sampled ones. Raises ExportError."""
    try:
        prompt, sampled = map(float, text.split(","))
    except ValueError:
        prompt = sampled = -1.0
    if not (0 <= prompt < float("inf") and 0 <= sampled < float("inf")):
        raise ExportError(f"--prices {text!r}: write two prices, of a million prompt tokens and of a million sampled ones, such as 0.5,1.5")
    return Prices(prompt, sampled)


def print_accounts(accounts: Sequence[Account], table: Table, console: Console) -> None:
    """A line for each harness in both."""
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, title="what it took", title_justify="left")
    grid.add_column("harness")
    heads = (
        "episodes",
        "solved",
        "calls",
        "turns",
        "side calls",
        "prompt tokens",
        "sampled",
        "truncated",
        "tokens per solved",
        "cost per solved",
    )
    for head in heads:
        grid.add_column(head, justify="right")
    for each in accounts:
        known = not each.uncounted
        cells = [
            f"{each.episodes}" + (f" ({each.invalid} invalid)" if each.invalid else ""),
            f"{each.solved} of {each.graded}",
            str(each.calls),
            str(each.turns),
            str(each.side_calls),
            str(each.prompt_tokens) if known else NONE,
            str(each.sampled_tokens) if known else NONE,
            NONE if each.truncated_share is None else f"{each.truncated_share:.1%}",
            NONE if each.tokens_per_solved is None else f"{each.tokens_per_solved:.0f}",
            NONE if each.cost_per_solved is None else f"{each.cost_per_solved:.4g}",
        ]
        grid.add_row(Text(f"{each.harness} {each.version} in {each.sandbox} on {each.engine}"), *cells)
    console.print(grid)
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, title="mean rewards (attempts that were graded)", title_justify="left")
    grid.add_column("harness")
    run = [scenario for scenario in table.scenarios if scenario not in table.never_run]
    for scenario in (*run, "mean", "scenarios"):
        grid.add_column(Text(scenario), justify="right")
    for subject in table.rows:
        mean, (graded, of) = table.mean(subject), table.coverage(subject)
        cells = [str(table.cell(subject, scenario)) for scenario in run]
        grid.add_row(Text(subject), *cells, NONE if mean is None else f"{mean:.3g}", f"{graded} of {of}")
    console.print(grid)
    if table.never_run:
        console.print(f"declared, and run by nobody: {', '.join(table.never_run)}", highlight=False, markup=False, soft_wrap=True)


def write_accounts(accounts: Sequence[Account], table: Table, folder: Path) -> Path:
    """The same as JSON; what is not known is null. Raises ExportError."""
    document = {
        "accounts": [{**asdict(each), **{name: getattr(each, name) for name in DERIVED}} for each in accounts],
        "scenarios": list(table.scenarios),
        "table": [
            {
                "subject": subject,
                "mean": table.mean(subject),
                "cells": {
                    scenario: {"state": cell.state, "mean": cell.mean, "attempts": cell.attempts, "rewards": list(cell.rewards)}
                    for scenario in table.scenarios
                    for cell in (table.cell(subject, scenario),)
                },
            }
            for subject in table.rows
        ],
    }
    path = folder / ACCOUNTING
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ExportError(f"{path} cannot be written ({error.strerror}); name a folder of yours with --report-dir") from None
    return path
