"""The engines, in the order in which they are asked. A new one is a module of its own and an entry here."""

from __future__ import annotations

from migrate.engine.engine import Engine
from migrate.engine.portable import Portable

ENGINES: tuple[Engine, ...] = (Portable(),)
