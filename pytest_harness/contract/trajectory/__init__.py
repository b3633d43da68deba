"""ATF: the harness's own log, as Harbor's ATIF document, against the wire. It is the one witness that is not us.

Harbor's validator checks the shape alone, so pairing, counts, sums, references and the token contract are checked here. Five levels: the
document by itself, its pairs, the number of model calls, the usage of each and all, and the ids where the trajectory has some.
"""

from pytest_harness.contract.trajectory import calls, documents, ids, pairs, usage
from pytest_harness.contract.trajectory.alignment import Alignment, Pair, align

__all__ = ["Alignment", "Pair", "align", "calls", "documents", "ids", "pairs", "usage"]
