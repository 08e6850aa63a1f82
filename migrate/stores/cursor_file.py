"""The adapter's own file, `stateferry.json`, inside the RocksDB directories that it works on.

It says that the store is half converged, and below which key the old store is known to be empty. The second part is no
more than a shortcut. It is in force only where nobody else has opened the old store for writing (each opening makes a
new manifest), where its sequence number has not gone back, and where both directories hold the same token: RocksDB
numbers manifests alike, so that a copy of the old directory can have the manifest that the new one speaks of.

A token is new at every writing, and goes to the old directory first, with the one that the new directory has. So what
a crash leaves in between can be told from a directory that was replaced.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from migrate.errors import RefusedError
from migrate.model.values import Stored
from migrate.stores.files import fsync_directory, make_directories, write_durably
from migrate.stores.lock import check_unlocked
from migrate.stores.regular_files import read_regular
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.live import LiveDatabase, manifest_of
from migrate.stores.state_store import StorageError

CURSOR_FILE = "stateferry.json"
_NOTHING_MOVED = b"{}"
NO_TOKEN = ""
"""Of a directory that an adapter has announced itself in, and of the files of the first release."""


class PairIdentity(Stored):
    """Which two stores one adapter works on, told by what does not change when directories are moved."""

    source: str
    target: str
    source_family: str
    target_family: str
    old_identity: str
    """RocksDB's own, of the old store's directory."""
    new_identity: str


class AdapterCursor(Stored):
    """What the adapter knew when it wrote the file."""

    pair: PairIdentity
    manifest: str
    """Of the old store's directory, in the session that wrote this."""
    sequence_number: int
    low_water: bytes | None
    """There is no old record below this key; None: nothing is known."""
    new_sequence_number: int
    """Of the new store's directory."""
    left: int
    """An estimate of the old records that were left."""
    token: str = NO_TOKEN
    previous_token: str | None = None
    """The one in the new store's directory when this was written."""
    is_at_rest: bool = False
    """The adapter has written nothing to the old store since."""

    def is_in_force(self, database: LiveDatabase) -> bool:
        """Nobody has opened the old store since. `database`: the old store's, open and locked."""
        return self.manifest == database.manifest_found and database.sequence_number >= self.sequence_number

    def is_untouched(self, database: LiveDatabase) -> bool:
        """Nobody has written to the old store since, though it may have been opened."""
        return self.is_in_force(database) or database.sequence_number == self.sequence_number


def read_cursor(directory: Path) -> AdapterCursor | None:
    """None: there is none, or none that can be read."""
    file = directory / CURSOR_FILE
    try:
        content = read_regular(file)
        return None if content == _NOTHING_MOVED else AdapterCursor.model_validate_json(content)
    except FileNotFoundError:
        return None
    except ValidationError:
        return None


def announce(directory: Path) -> None:
    """An adapter begins here: durable before there is a new store, which is empty at first."""
    make_directories(directory)
    _write(directory, _NOTHING_MOVED)


def is_announced(directory: Path) -> bool:
    """An adapter has begun here, and has not moved anything."""
    file = directory / CURSOR_FILE
    return file.exists() and read_regular(file) == _NOTHING_MOVED


def write_cursor(directories: list[Path], cursor: AdapterCursor, previous_token: str | None) -> str:
    """Its new token; durable in each directory when it returns. Raises StorageError.

    In the old store's first, unless the two did not belong together: then no copy of the old one may any more.
    """
    token = secrets.token_hex(16)
    content = cursor.model_copy(update={"token": token, "previous_token": previous_token})
    for directory in directories if previous_token is None else reversed(directories):
        _write(directory, content.model_dump_json(indent=1).encode())
    return token


def note_sequence_number(directory: Path) -> None:
    """Before the old store is opened: write down how far a session came that was killed.

    The opening makes a new manifest. If it is killed too, only the sequence number tells that nobody else has written.
    """
    cursor = read_cursor(directory)
    if cursor is None or cursor.is_at_rest or cursor.manifest != manifest_of(directory):
        return
    try:
        check_unlocked([directory / "LOCK"])
        with open_read_only(directory) as database:
            number = database.sequence_number
    except RefusedError:
        return  # the opening meets it too
    if number >= cursor.sequence_number:
        cursor = cursor.model_copy(update={"sequence_number": number, "is_at_rest": True})
        _write(directory, cursor.model_dump_json(indent=1).encode())


def remove_cursor(directories: list[Path]) -> None:
    """Durable when it returns. Raises StorageError."""
    for directory in directories:
        with _failing_as_storage(directory):
            _remove_torn(directory)
            if (directory / CURSOR_FILE).exists():
                (directory / CURSOR_FILE).unlink()
                fsync_directory(directory)


def _write(directory: Path, content: bytes) -> None:
    with _failing_as_storage(directory):
        _remove_torn(directory)
        write_durably(directory / CURSOR_FILE, content)


def _remove_torn(directory: Path) -> None:
    """What a process left that was killed while it wrote."""
    for torn in directory.glob(f".{CURSOR_FILE}.*.tmp"):
        torn.unlink(missing_ok=True)


@contextmanager
def _failing_as_storage(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{directory / CURSOR_FILE} cannot be written: {error}") from error


def has_started(directory: Path) -> bool:
    """An adapter has been at work here, and may have moved something."""
    return (directory / CURSOR_FILE).exists() and not is_announced(directory)


def half_converged(directory: Path) -> str | None:
    """How far an adapter came that has not finished its work here, in words; None: there is none."""
    if not (directory / CURSOR_FILE).exists():
        return None
    cursor = read_cursor(directory)
    if cursor is None:
        return "half converged"
    return f"half converged from {cursor.pair.source} to {cursor.pair.target}, about {cursor.left} records are left"


def check_not_half_converged(directory: Path) -> None:
    """Raises RefusedError where an adapter has not finished its work: what lies here is not the whole store."""
    if (how_far := half_converged(directory)) is not None:
        raise RefusedError(
            f"{directory} is {how_far}: its records lie in two places",
            hint="open it with DualReadStore, as before, and let it converge: "
            "store.converge(None, None) does it in one go",
        )
