"""Whether the tables that a verification has vouched for are as they were: before a cut-over, and before its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from migrate.batch.context import Context
from migrate.batch.ledger.standing import Standing
from migrate.batch.preflight.check import with_retries
from migrate.errors import CorruptionError, RefusedError
from migrate.stores.files import files_named
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.layout import identity_of
from migrate.stores.rocksdb.table_digests import digests_of, tables_in


def check_staged(context: Context) -> None:
    """Raises RefusedError where a table of the new stores, which nobody has used yet, is not as it was verified."""
    known, staged = context.standing.tables or {}, context.standing.assembled
    expected = {
        staged[partition] / name: digest
        for partition, tables in known.items()
        if partition in staged
        for name, digest in tables.items()
    }
    found = digests_of(expected)
    for file, digest in expected.items():
        if found.get(file) != digest:
            raise RefusedError(
                f"{file} is not as it was verified: it was damaged since, or removed",
                hint="the old stores are in their places; stateferry run SPEC verifies the new ones again, and makes "
                "again what is damaged",
            )


def check_in_use(context: Context) -> None:
    """Raises RefusedError where a table of a store in use is damaged: one of ours is not as it was verified, or one
    that its owner has written since cannot be read."""
    standing = context.standing
    known, ours = standing.tables or {}, _identities(context.standing)
    stores = context.new_stores
    expected = dict(
        each for partition, root in stores.items() for each in _expected(root, known.get(partition, {}), ours)
    )
    found = digests_of(expected)
    for file, digest in expected.items():
        if found.get(file) != digest and file.is_file():  # its owner may have compacted it away
            raise _damaged(f"{file} is not as it was verified, or cannot be read")
    for root in filter(Path.is_dir, stores.values()):
        for directory in dict.fromkeys(file.parent for file in tables_in(root) if file not in expected):
            _scan(directory)


def _expected(root: Path, tables: Mapping[str, str], ours: Set[str]) -> Iterator[tuple[Path, str]]:
    """The verified tables that are still there, in directories that we made: others have files of the same names."""
    kept = {file.parent for file in files_named("IDENTITY", root) if identity_of(file.parent) in ours}
    for name, digest in tables.items():
        if (file := root / name).parent in kept and file.is_file():
            yield file, digest


def _identities(standing: Standing) -> frozenset[str]:
    published = (name for intent in standing.publications for name in intent["stores"])
    return frozenset([*published, *(name for each in standing.journal.exchanges for name in each.new_names)])


def _scan(directory: Path) -> None:
    def read() -> None:
        with open_read_only(directory, all_files=True) as database:
            for family in database.families:
                for _ in database.batches(family):
                    pass

    try:
        with_retries(read, is_in_use=True)
    except (CorruptionError, RefusedError) as error:
        raise _damaged(f"{directory} cannot be read: {error.message}") from error


def _damaged(what: str) -> RefusedError:
    return RefusedError(
        f"{what}: nothing was removed, and the old stores can still be used",
        hint="stateferry status SPEC names the way back; or let the application restore that store from its changelog, "
        "then run the command again",
    )
