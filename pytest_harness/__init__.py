"""harness-conformance: may the tokens that come out of this agent harness be trained on?

The package is a pytest plugin (``pytest_harness.plugin``) and a command (``harness-conformance``).
Importing it pulls in nothing heavy: Harbor, the proxy and the engines load when a rollout needs them.
"""

from importlib.metadata import version

__version__ = version("harness-conformance")
