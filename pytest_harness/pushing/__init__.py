"""Sends reports and evidence to a file system or a dataset of the Hub: all is looked through first, and what is there is not sent again."""

from typing import Literal


class PushError(Exception):
    """What cannot be sent as asked; the message says what, why, and what to do."""


State = Literal["new", "same", "other"]
"""How a file stands at the target: not there yet, there as it is here, or there with another content."""
