"""Makes the subject that was named on the command line: one that is shipped, or ``module:Class`` of somebody's own."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping

from pytest_harness.wire.guarding import AdapterError, brief, guarded

__all__ = ["AdapterError", "load_subject"]


def load_subject[T](option: str, spec: str, shipped: Mapping[str, str], base: type[T]) -> T:
    """An instance of the class that ``spec`` names, a subclass of ``base``. Raises AdapterError, naming the option."""
    target, where = shipped.get(spec, spec), f"{option} {spec}"
    if not re.fullmatch(r"\w+(\.\w+)*:\w+", target):
        raise AdapterError(f"{where}: name {' or '.join(shipped)}, or an adapter class as module:Class")
    module, _, name = target.partition(":")
    with guarded(f"{where}: the import of {module}"):
        try:
            imported = importlib.import_module(module)
        except ImportError as error:
            raise AdapterError(f"{where}: {module} cannot be imported ({brief(error)}); put it on PYTHONPATH or install it") from None
        try:
            loaded = getattr(imported, name)
        except AttributeError:
            raise AdapterError(f"{where}: {module} has no {name}; name a class that is there") from None
    with guarded(f"{where}: making a {name}"):
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            package = base.__module__.rpartition(".")[0]
            raise AdapterError(f"{where}: {name} is no subclass of {package}.{base.__name__}; make it one")
        try:
            return loaded()
        except TypeError as error:
            raise AdapterError(f"{where}: {name} cannot be made without arguments ({brief(error)}); give it all abstract methods") from None
