"""``python -m pytest_harness.requirements`` prints the newest set as Markdown.

With ``left-out`` it prints what the catalogue leaves out, with ``faults`` the published faults and what does them again, with
``release VERSION`` it closes a set for good.
"""

from __future__ import annotations

import sys

from pytest_harness.requirements.catalogue import read_set
from pytest_harness.requirements.model import RequirementsError
from pytest_harness.requirements.page import to_markdown
from pytest_harness.requirements.released import release
from pytest_harness.requirements.sources import faults_page, left_out, read_sources


def main(arguments: list[str]) -> int:
    """The exit code of the command."""
    try:
        match arguments:
            case []:
                sys.stdout.write(to_markdown(read_set()))
            case ["left-out"]:
                sys.stdout.write(left_out(read_sources()))
            case ["faults"]:
                sys.stdout.write(faults_page(next(source for source in read_sources() if source.name == "reports")))
            case ["release", version]:
                release(version)
            case _:
                sys.stderr.write("error: say nothing for the page of the newest set, left-out, faults, or release VERSION to close a set\n")
                return 4
    except RequirementsError as error:
        sys.stderr.write(f"error: {error}\n")
        return 4
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
