"""Session stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from migrate.queries.definition import StoreDefinition
from migrate.queries.open.partition import Partition
from migrate.queries.views.composite import Composite, Decoder


class SessionView(Composite):
    """A read-only session store. Safe to share between threads."""

    def __init__(
        self,
        name: str,
        partitions: Sequence[Partition],
        definition: StoreDefinition,
        decoder: Callable[[Any], Decoder],
    ) -> None:
        super().__init__(name, partitions, definition)
        self._decode = decoder(definition.stored)
