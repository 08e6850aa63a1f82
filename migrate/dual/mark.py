"""The adapter's own file, `stateferry.json`, inside the RocksDB directories that it works on.

It says that the store is half converged, and below which key the old store is known to be empty. The second part is no
more than a shortcut, and void as soon as anybody could have written to the old store without us: every opening for
writing makes a new manifest, so the manifest's name tells whose session was the last one; a sequence number that went
back tells that a power cut, or a backup, took writes away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from migrate.errors import RefusedError
from migrate.keyrange import Stored
from migrate.stores.files import fsync_directory, make_directories, write_durably
from migrate.stores.regular_files import read_regular
from migrate.stores.rocksdb_live import LiveDatabase
from migrate.stores.state_store import StorageError

_LOG = logging.getLogger(__name__)
MARK_FILE = "stateferry.json"
_NOTHING_MOVED = b"{}"


class Pair(Stored):
    """Which two stores one adapter works on, told by what does not change when directories are moved."""

    source: str
    target: str
    source_family: str
    target_family: str
    old_identity: str
    """RocksDB's own, of the old store's directory."""
    new_identity: str


class Mark(Stored):
    """What the adapter knew when it wrote the file."""

    pair: Pair
    manifest: str
    """Of the old store's directory, in the session that wrote this."""
    sequence_number: int
    low_water: bytes | None
    """There is no old record below this key; None: nothing is known."""
    new_sequence_number: int
    """Of the new store's directory."""
    left: int
    """An estimate of the old records that were left."""

    def is_in_force(self, database: LiveDatabase) -> bool:
        """`database`: the old store's, open and locked."""
        if self.manifest != database.manifest_found:
            _LOG.warning(
                "%s was opened by somebody else since, unless the adapter was killed as it began: what was written "
                "there is found, but where the new store has the key already, its record wins",
                database.directory,
            )
            return False
        return database.sequence_number >= self.sequence_number


def read_mark(directory: Path) -> Mark | None:
    """None: there is none, or none that can be read."""
    file = directory / MARK_FILE
    try:
        content = read_regular(file)
        return None if content == _NOTHING_MOVED else Mark.model_validate_json(content)
    except FileNotFoundError:
        return None
    except ValidationError:
        _LOG.warning("%s is damaged: the old store is searched from its first key", file)
        return None


def announce(directory: Path) -> None:
    """An adapter begins here: durable before there is a new store, which is empty at first."""
    make_directories(directory)
    _write(directory, _NOTHING_MOVED)


def write_mark(directories: list[Path], mark: Mark) -> None:
    """Durable in each of them when it returns. Raises StorageError."""
    for directory in directories:
        _write(directory, mark.model_dump_json(indent=1).encode())


def remove_mark(directories: list[Path]) -> None:
    """Durable when it returns. Raises StorageError."""
    for directory in directories:
        with _failing_as_storage(directory):
            _remove_torn(directory)
            if (directory / MARK_FILE).exists():
                (directory / MARK_FILE).unlink()
                fsync_directory(directory)


def _write(directory: Path, content: bytes) -> None:
    with _failing_as_storage(directory):
        _remove_torn(directory)
        write_durably(directory / MARK_FILE, content)


def _remove_torn(directory: Path) -> None:
    """What a process left that was killed while it wrote."""
    for torn in directory.glob(f".{MARK_FILE}.*.tmp"):
        torn.unlink(missing_ok=True)


@contextmanager
def _failing_as_storage(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{directory / MARK_FILE} cannot be written: {error}") from error


def has_begun(directory: Path) -> bool:
    """An adapter has been at work here, and may have moved something."""
    file = directory / MARK_FILE
    return file.exists() and read_regular(file) != _NOTHING_MOVED


def half_converged(directory: Path) -> str | None:
    """How far an adapter came that has not finished its work here, in words; None: there is none."""
    if not (directory / MARK_FILE).exists():
        return None
    mark = read_mark(directory)
    if mark is None:
        return "half converged"
    return f"half converged from {mark.pair.source} to {mark.pair.target}, about {mark.left} records are left"


def check_not_half_converged(directory: Path) -> None:
    """Raises RefusedError where an adapter has not finished its work: what lies here is not the whole store."""
    if (how_far := half_converged(directory)) is not None:
        raise RefusedError(
            f"{directory} is {how_far}: its records lie in two places",
            hint="open it with DualReadStore, as before, and let it converge: "
            "store.converge(None, None) does it in one go",
        )
