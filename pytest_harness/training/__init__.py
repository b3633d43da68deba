"""What trainers get out of evidence: rows of ids with masks and logprobs, what they cost, and tables of what was solved."""

from pytest_harness.training.accounting import Account, account
from pytest_harness.training.export import Exported, export
from pytest_harness.training.rows import Refused, TrainingRow, rows_of
from pytest_harness.training.tables import Cell, Table, evaluation_table
from pytest_harness.training.writing import ExportError, check_target

__all__ = [
    "Account",
    "Cell",
    "ExportError",
    "Exported",
    "Refused",
    "Table",
    "TrainingRow",
    "account",
    "check_target",
    "evaluation_table",
    "export",
    "rows_of",
]
