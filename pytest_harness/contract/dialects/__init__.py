"""The dialects other than chat completions, read by the contract on its own: a second witness beside the proxy that translated them.

One module reads a dialect, another holds its events to the vendor's grammar. Nothing of the proxy's translation is used, and nothing that
the proxy hides in fields of its own (item ids, signatures) is looked into.
"""

from pytest_harness.contract.chat_wire import READERS
from pytest_harness.contract.dialects.gemini import Gemini
from pytest_harness.contract.dialects.messages import Messages
from pytest_harness.contract.dialects.responses import Responses

READERS |= {"responses": Responses(), "messages": Messages(), "gemini": Gemini()}

__all__ = ["Gemini", "Messages", "Responses"]
