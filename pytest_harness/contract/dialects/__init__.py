"""The dialects other than chat completions, read by the contract on its own: a second witness beside the proxy that translated them.

One module reads a dialect, another holds its events to the vendor's grammar. Nothing of the proxy's translation is used, and nothing that
the proxy hides in fields of its own (item ids, signatures) is looked into.
"""

from collections.abc import Callable, Iterator

from pytest_harness.contract.chat_wire import READERS, document
from pytest_harness.contract.dialects import gemini, messages, responses
from pytest_harness.contract.dialects.neutral import Asked, Json
from pytest_harness.evidence.model import Call, Dialect

READERS |= {"responses": responses.Responses(), "messages": messages.Messages(), "gemini": gemini.Gemini()}

_ASKED: dict[Dialect, Callable[[Json], Asked]] = {"responses": responses.asked, "messages": messages.asked, "gemini": gemini.asked}


def own_results(call: Call) -> Iterator[tuple[str, str]]:
    """The results in a request with the ids of their calls, in the harness's own words, to which a translation may have put a mark."""
    read, body = _ASKED.get(call.dialect), document(call.received)
    if read is not None and body is not None:
        for entry in read(body).entries:
            if entry.role == "tool" and isinstance(entry.answers, str):
                yield entry.answers, "".join(part for part in entry.parts if isinstance(part, str))
