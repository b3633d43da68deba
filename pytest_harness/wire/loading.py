"""Makes the subject that was named on the command line: one that is shipped, or ``module:Class`` of somebody's own."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping


class AdapterError(Exception):
    """A subject that cannot be named or started; the message says what was wrong and what to do."""


def load_subject[T](option: str, spec: str, shipped: Mapping[str, str], base: type[T]) -> T:
    """An instance of the class that ``spec`` names, a subclass of ``base``. Raises AdapterError, naming the option."""
    target = shipped.get(spec, spec)
    if not re.fullmatch(r"[\w.]+:\w+", target):
        raise AdapterError(f"{option} {spec}: name {' or '.join(shipped)}, or an adapter class as module:Class")
    module, _, name = target.partition(":")
    try:
        loaded = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise AdapterError(f"{option} {spec}: {module} cannot be imported ({error}); put it on PYTHONPATH or install it") from None
    except AttributeError:
        raise AdapterError(f"{option} {spec}: {module} has no {name}; name a class that is there") from None
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        package = base.__module__.rpartition(".")[0]
        raise AdapterError(f"{option} {spec}: {name} is no subclass of {package}.{base.__name__}; make it one")
    try:
        return loaded()
    except TypeError as error:
        raise AdapterError(f"{option} {spec}: {name} cannot be made without arguments ({error}); give it all abstract methods") from None
