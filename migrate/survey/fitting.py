"""Which known formats fit a RocksDB directory, by column families; records only ever rule one out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from formats import FORMATS, EntryError, Format, get_format
from migrate.stores.rocksdb import DEFAULT_FAMILY, open_read_only
from migrate.systems import System, get_system

_SAMPLE = 100


def formats_that_fit(
    families: Iterable[str], *, system: str | None = None, is_segmented: bool | None = None
) -> tuple[str, ...]:
    """Ids of the formats that keep their records in exactly these families, an unfinished upgrade's among them.

    `system`: those of one system only; `is_segmented`: those that lie so, where the directory's place tells.
    """
    found = set(families)
    return tuple(
        known.id
        for known in FORMATS
        if system in (None, known.system) and is_segmented in (None, known.is_segmented) and _fits(known, found)
    )


def _fits(known: Format, families: set[str]) -> bool:
    if known.column_families is None:
        return True
    older = {family.name for family in known.older_families}
    own = families - {*known.metadata_families}
    return own >= {*known.column_families} and own <= {*known.column_families, *older, DEFAULT_FAMILY}


def could_be(format_ids: Iterable[str], directories: Iterable[Path]) -> list[str]:
    """Those of which one of the first records could be, in any of these directories; all, where there is no record.

    That a record can be read as a format proves nothing; that none can be rules it out.
    """
    records = [record for directory in directories for record in _first_records(directory)]
    return [name for name in format_ids if not records or any(_decodes(get_format(name), *each) for each in records)]


def _first_records(directory: Path) -> list[tuple[str, bytes, bytes]]:
    """(column family, key, value)."""
    with open_read_only(directory) as database:
        samples = {family: database.sample(family, None, _SAMPLE) for family in database.families}
    return [(family, *pair) for family, batch in samples.items() for pair in zip(batch.keys, batch.values, strict=True)]


def _decodes(known: Format, family: str, key: bytes, value: bytes) -> bool:
    if family in {older.name for older in known.older_families}:
        return True  # whatever it holds: an upgrade would put something before it
    if known.column_families is not None and family not in known.column_families:
        return False
    try:
        known.decode(key, value)
    except EntryError:
        return False
    return True


def system_of_metadata(family: str, fitting: Iterable[str]) -> System | None:
    """Whose own it is, by the formats that fit; None: it holds records."""
    known = (get_format(format_id) for format_id in fitting)
    return next((get_system(f.system) for f in known if family in f.metadata_families), None)
