"""From what was read to what is told."""

from __future__ import annotations

from formats import Conversion
from migrate.dry_run.reading import Reading
from migrate.dry_run.report import Found, Tried


def found_of(reading: Reading) -> Found:
    """Totals over all store partitions."""
    databases = tuple(reading.found)
    data = [family for database in databases for family in database.families if family.role == "records"]
    older = [family for database in databases for family in database.families if family.role == "older"]
    exact = not reading.unread and all(family.exact for family in (*data, *older))
    shadowed, unfinished = round(reading.shadowed), sum(family.records for family in older)
    sizes = reading.trial.old_sizes if reading.full is None else reading.full.old_sizes
    return Found(
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


def tried_of(reading: Reading, found: Found, conversion: Conversion, seed: int) -> Tried:
    """Counts over every record where all were converted; the two paths are compared on the sample alone."""
    trial, full = reading.trial, reading.full
    counted = trial if full is None else full
    return Tried(
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
        losses_in_words=tuple(_in_words(loss) for loss in conversion.losses),
        both_paths=trial.both_paths,
        differences=tuple(trial.differences),
        program=None if conversion.program is None else str(conversion.program),
        key_sizes=counted.new_sizes.keys.sizes(),
        value_sizes=counted.new_sizes.values.sizes(),
    )


def _in_words(loss: str) -> str:
    return f"the {loss.removeprefix('loss:')} of every record: the new format has no room for it"
