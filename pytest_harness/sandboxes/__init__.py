"""Where a harness runs: the local bubblewrap sandbox, and the gates by which a rollout gets hold of a running one.

Importing this package imports neither Harbor nor anything that needs Linux; ``sandboxes.local`` is the Harbor side.
"""
