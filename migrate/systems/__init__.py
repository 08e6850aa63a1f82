"""Where each system keeps its stores: directories, locks, side files. One module per system."""

from migrate.systems.base import System
from migrate.systems.registry import get_system

__all__ = ["System", "get_system"]
