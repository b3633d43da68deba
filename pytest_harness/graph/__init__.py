"""From calls to turns: the graph of an attempt, its retries, whose turns they are, and the training rows of it."""

from pytest_harness.graph.fates import Fate
from pytest_harness.graph.requests import ROUTES, is_model_call
from pytest_harness.graph.retries import superseded
from pytest_harness.graph.roles import Role, Sign
from pytest_harness.graph.rows import Row, training_rows
from pytest_harness.graph.turns import Graph, Turn, build

__all__ = ["ROUTES", "Fate", "Graph", "Role", "Row", "Sign", "Turn", "build", "is_model_call", "superseded", "training_rows"]
