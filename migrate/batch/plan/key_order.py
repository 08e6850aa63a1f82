"""Whether new keys have to be sorted: what the conversion may do to keys, and what it does to a sample of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise

from formats import Conversion, EntryError, Format
from migrate.batch.source.sampling import SampleSize, read_sample
from migrate.batch.source.source import Source
from migrate.model.key_range import show_key
from migrate.model.plan import Plan
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import tracking_imports
from migrate.spec.spec import Spec
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.database import Database, open_read_only

_OF_EACH = SampleSize(records=256, max_bytes=1 << 20)
"""How many records of each column family of each old RocksDB directory are converted."""


def may_change_keys(conversion: Conversion) -> bool:
    """Whether a new key may have other bytes than its old one."""
    source, target = conversion.source, conversion.target
    if (source.key_schema, source.key_serde) != (target.key_schema, target.key_serde):
        return True
    is_rewritten = target.key_serde.name == "json"  # a function gets JSON as an object, which is written as new text
    is_given = conversion.keys_may_change or not target.keeps_keys_in_tasks or is_rewritten
    return conversion.function is not None and is_given


def reason_to_sort(
    spec: Spec, source: Callable[[], Source], conversion: Conversion, ref: ConversionRef, stored: Plan | None = None
) -> str:
    """Why new keys are sorted, in words; empty: as far as a sample shows, they keep the order of the old ones.

    `stored`: the migration's plan, which decides unless the spec does. Raises RefusedError where a store cannot be
    opened. What is wrong with a record is for later checks to say.
    """
    if spec.run.sort is not None:
        return "[run] sort = true" if spec.run.sort else ""
    if stored is not None:
        return "as the plan of this migration says" if stored.is_sorted else ""
    if not may_change_keys(conversion):
        return ""
    if reason := _declared_reason(spec, ref):
        return reason
    with tracking_imports(ref):
        return next(_reordered(source(), conversion), "")


def _declared_reason(spec: Spec, ref: ConversionRef) -> str:
    """Why, whatever the records are; empty: it depends on them."""
    if spec.target.partitions is not None:
        return "a new key may belong to another store partition than its old one"
    if spec.conversion.on_collision is not None:
        return "[conversion] on_collision says what becomes of records that get one key"
    if ref.key is not None:
        from formats.serdes.conversions import is_order_preserving  # loads Avro

        if not is_order_preserving(ref.key.source, ref.key.target):
            old, new = ref.key.source.name, ref.key.target.name
            how = f"from {old} to {new}" if old != new else f"of {old}, written otherwise,"
            return f"[conversion.key]: keys {how} need not keep their order"
    return ""


def _reordered(source: Source, conversion: Conversion) -> Iterator[str]:
    for partition in source.partitions:
        for directory in source.directories(partition).values():
            with open_read_only(directory) as opened:
                for family in _families(opened, conversion.source):
                    batches = read_sample(opened, family, _OF_EACH, conversion.source.on_columns).batches
                    for (first, before), (second, key) in pairwise(_converted(conversion, batches)):
                        if before > key:
                            yield f"{show_key(second)} comes before {show_key(first)} in {partition.id}, once converted"


def _families(opened: Database, known: Format) -> Sequence[str]:
    wanted = known.column_families or opened.families
    every = {*wanted, *(each.name for each in known.older_families)} - {*known.metadata_families}
    return [each for each in opened.families if each in every]


def _converted(conversion: Conversion, batches: Iterator[Batch]) -> Iterator[tuple[bytes, bytes]]:
    """(old key, new key) of the records that are converted."""
    for key, value in chain.from_iterable(zip(each.keys, each.values, strict=True) for each in batches):
        try:
            converted = conversion.convert(key, value)
        except (EntryError, OSError):
            continue
        if converted is not None:
            yield key, converted[0]
