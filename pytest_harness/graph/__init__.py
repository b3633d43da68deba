"""From calls to turns: the graph of an attempt, its retries, and the training rows of it."""

from pytest_harness.graph.retries import superseded
from pytest_harness.graph.turns import Fate, Graph, Role, Row, Turn, build, training_rows

__all__ = ["Fate", "Graph", "Role", "Row", "Turn", "build", "superseded", "training_rows"]
