"""Where each system keeps its stores: directories, locks, side files. One module per system."""

from migrate.systems.base import StoreDirectory, System
from migrate.systems.registry import SYSTEMS, get_system, known_format, owner_around, system_of_application
from migrate.systems.standalone import STANDALONE

__all__ = [
    "STANDALONE",
    "SYSTEMS",
    "StoreDirectory",
    "System",
    "get_system",
    "known_format",
    "owner_around",
    "system_of_application",
]
