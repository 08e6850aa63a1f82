"""What every step of one run shares."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from formats import Conversion
from migrate.events import Event, Listener
from migrate.functions import ConversionRef
from migrate.plan_model import Plan
from migrate.source import snapshot_directory
from migrate.spec import Spec


@dataclass(frozen=True, slots=True)
class Context:
    """One run of one migration."""

    spec: Spec
    listener: Listener
    ref: ConversionRef
    conversion: Conversion
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @property
    def home(self) -> Path:
        """The migration's own folder."""
        return self.spec.home

    def notify(self, name: str, **facts: Any) -> None:  # noqa: ANN401 - each event has facts of its own
        """Tell the listener that this point is reached."""
        self.listener(Event(name, facts))

    def snapshot_of(self, plan: Plan, partition_id: str, database: str) -> Path:
        """The snapshot of one RocksDB directory."""
        partition = next(partition for partition in plan.store_partitions if partition.id == partition_id)
        return snapshot_directory(self.home, partition, database)
