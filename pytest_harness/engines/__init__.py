"""Engines: what samples. Each is a package or module of its own; importing this one imports none of them."""
