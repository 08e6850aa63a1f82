"""The context that all steps of one run share."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from formats import Conversion
from migrate.batch.ledger.gates import NOTHING_ACCEPTED, Acceptance
from migrate.batch.source.changelog_ends import ChangelogEnds
from migrate.batch.source.snapshot import present_snapshot
from migrate.batch.stop import Stop
from migrate.model.changelogs import Times
from migrate.model.events import Event, Listener, ignore
from migrate.model.plan import Plan
from migrate.spec.changelog_way import takes_times
from migrate.spec.conversion import conversion_ref, load_conversion
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class Context:
    """One run of one migration."""

    spec: Spec
    listener: Listener
    ref: ConversionRef
    conversion: Conversion
    acceptance: Acceptance = NOTHING_ACCEPTED
    stop: Stop = field(default_factory=Stop)
    changelog_ends: ChangelogEnds = field(default_factory=dict)
    """The changelog ends that the operator confirmed."""
    fence: bool = False
    """End the transactions that dead instances of the application left open."""
    jobs: int = 1
    """How many processes of this machine work."""
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    warnings: list[str] = field(default_factory=list)
    """Warnings of this run, such as repairs, for its report."""
    times: dict[str, Times] = field(default_factory=dict)
    """By store partition, the times that the old changelog has; empty: they are not needed."""
    home: Path = field(init=False)
    """The migration's own folder."""

    def __post_init__(self) -> None:
        """Resolve the folder's path once: each time takes a system call for each of its parents."""
        object.__setattr__(self, "home", self.spec.home)

    def notify(self, name: str, **facts: Any) -> None:  # noqa: ANN401 - each event has facts of its own
        """Send an event to the listener."""
        self.listener(Event(name, facts))

    def warn(self, sentence: str) -> None:
        """Send a warning to the listener, and keep it for the report."""
        self.warnings.append(sentence)
        self.notify("warning", sentence=sentence)

    def snapshots_of(self, plan: Plan, partition_id: str) -> dict[str, Path]:
        """The snapshots of a store partition's RocksDB directories, by database."""
        return present_snapshot(self.home, plan.partition(partition_id))

    def times_of(self, partition_id: str) -> str | None:
        """The run that a store partition's new records take their times from; None: they have some, or the default."""
        found = self.times.get(partition_id) if takes_times(self.spec, self.conversion) else None
        return None if found is None else str(self.home / found.folder)


def make_context(
    spec: Spec,
    on_event: Listener = ignore,
    stop: Stop | None = None,
    acceptance: Acceptance = NOTHING_ACCEPTED,
    *,
    changelog_ends: ChangelogEnds | None = None,
    fence: bool = False,
    jobs: int = 1,
) -> Context:
    """The context of a new run. Raises SpecError if the function cannot be imported."""
    ref = conversion_ref(spec)
    return Context(
        spec=spec,
        listener=on_event,
        ref=ref,
        conversion=load_conversion(ref),
        acceptance=acceptance,
        stop=stop or Stop(),
        changelog_ends=changelog_ends or {},
        fence=fence,
        jobs=jobs,
    )
