"""The capture proxy: sessions with keys of their own, every call passed on to an engine, and a journal of all that was said."""

from pytest_harness.capture.app import CaptureProxy
from pytest_harness.capture.journal import JournalError, read_journal
from pytest_harness.capture.sessions import Session
from pytest_harness.capture.upstream import Upstream, UpstreamError

__all__ = ["CaptureProxy", "JournalError", "Session", "Upstream", "UpstreamError", "read_journal"]
