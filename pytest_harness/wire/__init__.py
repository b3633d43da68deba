"""The wire suite's tools: proxies under test behind one adapter, a scripted upstream, and the vendors' own SDKs as clients.

What is judged is in ``conformance/wire``; this package knows neither pytest nor requirements. A proxy is never trusted: whatever it does
ends as :class:`Broken`, :class:`NotExercised`, or a pass.
"""

from pytest_harness.wire.adapter import CapturedCall, CapturedSample, Engine, ProxyAdapter, ProxySession, load_adapter
from pytest_harness.wire.loading import AdapterError
from pytest_harness.wire.outcome import Broken, NotExercised

__all__ = [
    "AdapterError",
    "Broken",
    "CapturedCall",
    "CapturedSample",
    "Engine",
    "NotExercised",
    "ProxyAdapter",
    "ProxySession",
    "load_adapter",
]
