"""Brings the fixtures of harness-conformance to all tests of this repository."""

pytest_plugins = ["pytest_harness.fixtures"]
