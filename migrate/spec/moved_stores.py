"""`[target] partitions`: another number of store partitions, and the stores of the same tasks that move along."""

from __future__ import annotations

from formats import UnknownFormatError, get_format
from migrate.spec.sections import ChangelogSection, MovedStore, SourceSection, TargetSection


def check_no_effect(source: SourceSection) -> None:
    """Raises ValueError for what has no effect without `[target] partitions`."""
    for store in source.moved_stores:
        raise ValueError(
            f"[source] stores, {store.name!r}: a store with a format of its own moves along to another number of "
            "partitions, which needs [target] partitions; else give it a spec of its own"
        )
    if source.partitioner is not None:
        raise ValueError("[source] partitioner has no effect without [target] partitions")


def check_partitions(source: SourceSection, target: TargetSection, changelog: ChangelogSection | None) -> None:
    """Raises ValueError for what does not go with another number of partitions."""
    systems = {get_format(each.format).system for each in (source, target)}
    problems = [
        (not source.store_names, "needs [source] store or stores: a RocksDB directory alone has no number"),
        (target.path is None, "needs [target] path: the set of tasks changes, so a new state directory is made"),
        (len(systems) > 1, f"does not go with another system: {source.format} becomes {target.format}"),
        (
            target.retention_ms is not None or target.segment_ms is not None,
            "does not go with [target] retention_ms and segment_ms: change those in a spec of their own",
        ),
    ]
    if changelog is not None:
        problems += [
            (
                changelog.missing == "rebuild",
                'does not go with [changelog] missing = "rebuild": every old task must be here',
            ),
            (
                changelog.timestamps == "changelog",
                'does not go with [changelog] timestamps = "changelog": take those over in a spec of their own',
            ),
            (
                not (target.store_names or source.rows),
                "with [changelog] needs a new name, in [target] store or stores: the new changelog is another topic, "
                "with the new number of partitions",
            ),
        ]
    for is_so, what in problems:
        if is_so:
            raise ValueError(f"[target] partitions {what}")


def check_moved_stores(source: SourceSection) -> None:
    """Raises ValueError for a store with a format of its own that it cannot have."""
    for store in source.moved_stores:
        _check_moved(store, source)


def _check_moved(store: MovedStore, source: SourceSection) -> None:
    where, beside = f"[source] stores, {store.name!r}", get_format(source.format)
    try:
        known = get_format(store.format, beside.id)
    except UnknownFormatError as error:
        raise ValueError(f"{where}: {error}") from error
    if known.system != beside.system:
        raise ValueError(f"{where}: {store.format} belongs to another system than {beside.id}")
    has_retention = known.is_segmented or (source.changelog and known.kind == "versioned")
    if store.retention_ms is not None and not has_retention:
        raise ValueError(f"{where}: retention_ms: only windowed and session stores have segments by time")
    if store.segment_ms is not None and store.retention_ms is None:
        raise ValueError(f"{where}: segment_ms has no effect without retention_ms")
