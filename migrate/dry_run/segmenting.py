"""Which segments a windowed or session store has, and which it would have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrate.dry_run.report import Segmentation, SegmentPlanned
from migrate.plan_model import DatabasePlan
from migrate.source import Source, target_system
from migrate.spec import Spec


def segmentations(spec: Spec, source: Source, databases: Sequence[DatabasePlan]) -> Iterator[Segmentation]:
    """One for each store partition; none for other kinds of stores."""
    if not spec.has_segments:
        return
    for partition in source.partitions:
        mine = [plan for plan in databases if plan.store_partition == partition.id]
        expired = [plan.times for plan in mine if not plan.is_kept and plan.times is not None]
        yield Segmentation(
            store_partition=partition.id,
            old=tuple(segment.name for segment in source.system.segments(source.path, partition)),
            new=tuple(
                SegmentPlanned(
                    name=plan.database,
                    start_ms=target_system(spec).segment_start(partition.store, plan.database),
                    made_of=tuple(each.database for each in plan.sources),
                )
                for plan in mine
                if plan.is_kept
            ),
            expired_before_ms=expired[0].end_ms if expired else None,
        )
