"""The report as one HTML file that needs nothing else: it opens from disk, asks nobody for anything, and shows the bytes."""

from pytest_harness.reports.html.page import page

__all__ = ["page"]
