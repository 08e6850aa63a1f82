"""Which known formats fit a RocksDB directory, by column families alone: bytes are never guessed at."""

from __future__ import annotations

from collections.abc import Iterable

from formats import FORMATS, Format, get_format
from migrate.stores.rocksdb import DEFAULT_FAMILY
from migrate.systems import System, get_system


def formats_that_fit(families: Iterable[str], *, system: str | None = None) -> tuple[str, ...]:
    """Ids of the formats that keep their records in exactly these families; `system`: those of one system only."""
    found = set(families)
    return tuple(known.id for known in FORMATS if system in (None, known.system) and _fits(known, found))


def _fits(known: Format, families: set[str]) -> bool:
    if known.column_families is None:
        return True
    return {*known.column_families, DEFAULT_FAMILY} == {*families - {*known.metadata_families}, DEFAULT_FAMILY}


def system_of_metadata(family: str, fitting: Iterable[str]) -> System | None:
    """Whose own it is, by the formats that fit; None: it holds records."""
    known = (get_format(format_id) for format_id in fitting)
    return next((get_system(f.system, has_stores=True) for f in known if family in f.metadata_families), None)
