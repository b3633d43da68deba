"""Finds the release of a harness that broke a requirement: halving, as git bisect does it with commits."""


class BisectError(Exception):
    """What cannot be bisected as asked; the message says why and what to do."""
