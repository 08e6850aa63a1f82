"""From what was read to what is reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from formats import Conversion
from migrate.batch.source.source import Source, target_system
from migrate.dry_run.report import Inventory, SampleConversion, Segmentation, SegmentPlanned
from migrate.dry_run.source_reader import SourceReader
from migrate.model.plan import DatabasePlan
from migrate.spec.spec import Spec


def inventory_of(reading: SourceReader) -> Inventory:
    """Totals over all store partitions."""
    databases = reading.found
    data = [family for database in databases for family in database.families if family.role == "records"]
    older = [family for database in databases for family in database.families if family.role == "older"]
    exact = reading.is_whole and all(family.exact for family in (*data, *older))
    shadowed, unfinished = round(reading.shadowed), sum(family.records for family in older)
    sizes = reading.trial.old_sizes if reading.full is None else reading.full.old_sizes
    return Inventory(
        databases=databases,
        store_partitions=len({database.store_partition for database in databases}),
        records=sum(family.records for family in data) + unfinished - shadowed,
        exact=exact,
        at_least=sum(family.at_least for family in data) + (unfinished - shadowed if exact else 0),
        at_most=sum(family.at_most for family in (*data, *older)) - (shadowed if exact else 0),
        unfinished=unfinished,
        shadowed=shadowed,
        expired=round(reading.expired),
        size=sum(database.size for database in databases),
        record_bytes=sum(database.record_bytes for database in databases),
        key_sizes=sizes.keys.sizes(),
        value_sizes=sizes.values.sizes(),
    )


def sample_conversion_of(
    reading: SourceReader, found: Inventory, conversion: Conversion, seed: int
) -> SampleConversion:
    """Counts over every record where all were converted; the two paths are compared on the sample alone."""
    trial, full = reading.trial, reading.full
    counted = trial if full is None else full
    return SampleConversion(
        records=counted.records,
        is_full=found.exact and counted.records + counted.expired == found.records,
        seed=seed,
        store_partitions_read=trial.partitions,
        decoded=trial.decoded,
        sampled=trial.records,
        converted=counted.converted,
        rejected=counted.rejects.count,
        dropped=counted.dropped,
        expired=counted.expired,
        unchanged=counted.unchanged,
        rejects=counted.rejects.reasons(),
        look_alikes=trial.look_alikes(),
        examples=trial.examples,
        collisions=tuple(counted.order.collisions or trial.order.collisions),
        colliding_keys=max(counted.order.colliding, trial.order.colliding),
        out_of_order=counted.order.out_of_order or trial.order.out_of_order,
        losses=conversion.losses,
        losses_in_words=tuple(
            f"the {loss.removeprefix('loss:')} of every record: the new format has no room for it"
            for loss in conversion.losses
        ),
        both_paths=trial.both_paths,
        differences=tuple(trial.differences),
        program=None if conversion.program is None else str(conversion.program),
        key_sizes=counted.new_sizes.keys.sizes(),
        value_sizes=counted.new_sizes.values.sizes(),
    )


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
