"""Puts a pinned harness once into a cache shared by all processes of this user, ready to be mounted read-only into sandboxes."""

from pytest_harness.provision.cache import Cache, Entry, ProvisionError
from pytest_harness.provision.installed import Installed, find_installed, provision

__all__ = ["Cache", "Entry", "Installed", "ProvisionError", "find_installed", "provision"]
