"""Known-bad transformations of evidence, by name: each breaks exactly the requirement that lists it in the catalogue.

A check that no saboteur can trip is not a check. Each keeps the raw bytes and what was parsed from them consistent, save where their
difference is the fault.
"""

from pytest_harness.saboteurs import (
    company,
    dialects,
    errors,
    finishes,
    graphs,
    outcomes,
    pairing,
    reported,
    retries,
    rewards,
    sides,
    streams,
    surroundings,
    tokens,
    trajectories,
    usage,
)
from pytest_harness.saboteurs.registry import Aim, NothingToSabotage, Saboteur, SaboteurError, apply, chosen, names, saboteur

MODULES = (
    tokens,
    graphs,
    sides,
    retries,
    pairing,
    streams,
    dialects,
    usage,
    finishes,
    errors,
    trajectories,
    outcomes,
    rewards,
    surroundings,
    company,
    reported,
)
"""The modules whose import registers the saboteurs."""

__all__ = ["MODULES", "Aim", "NothingToSabotage", "Saboteur", "SaboteurError", "apply", "chosen", "names", "saboteur"]
