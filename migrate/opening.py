"""`open_store`: the records of one store, as bytes, whatever its format."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

from formats import get_format
from migrate.dual.mark import check_not_half_converged
from migrate.errors import RefusedError
from migrate.source import check_default_is_empty, lanes
from migrate.stores.layout import database_files, is_rocksdb
from migrate.stores.lifecycle import Listener
from migrate.stores.rocks_store import RocksStore
from migrate.stores.rocksdb import DEFAULT_FAMILY, open_read_only
from migrate.stores.rocksdb_live import Family, families_of, open_live, read_only_family


def open_store(
    path: str | Path,
    *,
    format: str,
    family: str | None = None,
    read_only: bool = True,
    create: bool = False,
    on_state_change: Listener | None = None,
) -> RocksStore:
    """Open one RocksDB directory; `format` is a format id and says which column family holds the records.

    `family`: where the format holds any, and the directory has several. `create`: begin an empty store, open for
    writing, where there is none. Read-only touches nothing and works beside a running owner.

    Raises RefusedError where the families are not the format's or where the store is half converged,
    StoreLockedError where another process holds a store that is to be written.
    """
    directory = Path(path).resolve()
    if create and not is_rocksdb(directory):
        return _create(directory, format, family, on_state_change)
    if not is_rocksdb(directory):
        raise RefusedError(
            f"there is no store: {directory} is not a RocksDB directory",
            hint="check the path; to begin an empty store there, say create=True, read_only=False",
        )
    database_files(directory)
    check_not_half_converged(directory)
    with ExitStack() as resources:
        if read_only:
            database = resources.enter_context(open_read_only(directory))
            records = read_only_family(database, _family(database.families, format, family, directory))
            live = None
            with closing(read_only_family(database, DEFAULT_FAMILY)) as default:
                _check_whole(records, default, format, directory)
        else:
            name = _family(families_of(directory), format, family, directory)
            live = resources.enter_context(open_live(directory))
            records = live.family(name)
            _check_whole(records, live.family(DEFAULT_FAMILY), format, directory)
        store = RocksStore(directory, records, live, resources.pop_all(), on_state_change=on_state_change)
    store.start()
    return store


_MAX_SKIPS = 10_000


def _create(directory: Path, format_id: str, family: str | None, listener: Listener | None) -> RocksStore:
    known = get_format(format_id)
    name = family or (known.column_families or (DEFAULT_FAMILY,))[0]
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as resources:
        live = resources.enter_context(open_live(directory))
        live.make_family(name)
        store = RocksStore(directory, live.family(name), live, resources.pop_all(), on_state_change=listener)
    store.start()
    return store


def _check_whole(records: Family, default: Family, format_id: str, directory: Path) -> None:
    if records.name != DEFAULT_FAMILY and get_format(format_id).column_families is not None:
        check_default_is_empty(default, records.name, directory, max_skips=_MAX_SKIPS)


def _family(families: tuple[str, ...], format_id: str, wanted: str | None, directory: Path) -> str:
    known = get_format(format_id)
    found = [lane.source for lane in lanes(families, known, known, directory)]
    if wanted is not None:
        if wanted not in found:
            raise RefusedError(
                f"{directory} has no column family {wanted!r} of {known.id}: it has {', '.join(found)}",
                hint="name one that it has",
            )
        return wanted
    if len(found) != 1:
        raise RefusedError(
            f"{directory} holds several column families: {', '.join(found)}", hint="name one: family=..."
        )
    return found[0]
