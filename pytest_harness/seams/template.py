"""The text of a new seam row, for a harness that is on this machine already. It loads as it stands, once its folder is there."""

from __future__ import annotations

import re

from pytest_harness.seams.rows import SeamError

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

_TEXT = """\
# One row: everything that is particular to one harness. Run it with
#   pytest --harness=NAME --seams=FOLDER_OF_THIS_FILE
name = "NAME"
title = "NAME"
homepage = "https://example.org/NAME"
dialect = "chat"            # the wire it speaks: OpenAI chat completions
streams = false             # whether it asks for streamed replies
scenarios = ["edit_file", "explore", "parallel_calls", "wrong_answer", "no_verdict"]
trajectory = "none"         # "atif" if it leaves an ATIF document at /logs/agent/trajectory.json

[install]
kind = "preinstalled"       # or "pypi", or "npm": see the bundled rows
path = "../NAME"            # its folder, relative to this file; the sandbox sees it read-only at its own place
commands = { NAME = "bin/NAME" }    # command in the sandbox -> executable file below path
version_command = "NAME --version"

[agent]
command = "NAME {instruction}"      # {instruction} is the task, quoted for the shell
env = { OPENAI_BASE_URL = "{url}/v1", OPENAI_API_KEY = "{key}", OPENAI_MODEL = "{model}" }
timeout_sec = 120

# Which of its tools runs a shell command. The scripted engine calls it.
[shell]
tool = "bash"
argument = "command"

# How it learns that the task is done. A reply without a tool call is enough where this is left out.
# [finish]
# command = "echo DONE"

# Its own session log in the sandbox, copied into the evidence.
# [native]
# log = "~/.NAME/sessions"
"""


def new_seam_text(name: str) -> str:
    """A row to be filled in. Raises SeamError for a name that a row cannot have."""
    if not _NAME.fullmatch(name):
        raise SeamError(f"{name!r} cannot be the name of a seam: lower-case letters, digits and single hyphens are expected")
    return _TEXT.replace("NAME", name)
