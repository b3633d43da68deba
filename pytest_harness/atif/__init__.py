"""Reads ATIF documents of every version, with all that they refer to, and says what is wrong with their shape. It knows no wire."""

from pytest_harness.atif.document import AGENT_FOLDER, PATH, VERSIONS, Document, Problem, Step, Trace, read_trace

__all__ = ["AGENT_FOLDER", "PATH", "VERSIONS", "Document", "Problem", "Step", "Trace", "read_trace"]
