"""Where the bundled data lies: beside the package in a checkout, in ``pytest_harness/_data/`` in a wheel.

The wheel carries ``conformance/``, ``fixtures/`` and ``seams/`` there so that none of them becomes a top-level package in
site-packages.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(*parts: str) -> Path:
    """The path of a bundled file or folder, e.g. ``resource("seams", "pi.toml")``.

    Raises FileNotFoundError if neither the wheel's nor the checkout's layout has it.
    """
    for root in (_PACKAGE / "_data", _PACKAGE.parent):
        path = root.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError(f"bundled data {'/'.join(parts)!r} is missing from this installation of harness-conformance")
