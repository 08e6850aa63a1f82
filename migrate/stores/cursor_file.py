"""The adapter cursor: the file `stateferry.json` inside the RocksDB directories that the adapter works on.

It states that the store is half converged, and below which key the old store is known to be empty. The second part only
saves time. It is in force if no other process has opened the old store for writing (an opening creates a manifest), if
its sequence number is not lower, and if both directories hold the same token: RocksDB numbers manifests alike in every
directory, so that a copy of the old directory can have the manifest that the new one names.

Every write makes a new token, which goes to the old directory first, together with the token that the new directory
has. So the state that a crash leaves in between differs from a directory that was replaced.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from migrate.errors import RefusedError
from migrate.model.display import plural
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
"""The token of a directory in which an adapter has announced itself."""


class PairIdentity(Stored):
    """What identifies the two stores of one adapter, wherever their directories are moved."""

    source: str
    target: str
    source_family: str
    target_family: str
    old_identity: str
    """RocksDB's identity of the old store's directory."""
    new_identity: str


class AdapterCursor(Stored):
    """What the adapter knew about its two stores when it wrote the file."""

    pair: PairIdentity
    manifest: str
    """The old store's manifest in the session that wrote this."""
    sequence_number: int
    low_water: bytes | None
    """The key below which there is no old record; None: not known."""
    new_sequence_number: int
    """The sequence number of the new store's directory."""
    left: int
    """An estimate of the number of old records."""
    token: str = NO_TOKEN
    previous_token: str | None = None
    """The token in the new store's directory when this was written."""
    is_at_rest: bool = False
    """Whether the adapter has written nothing to the old store since."""

    def is_in_force(self, database: LiveDatabase) -> bool:
        """Whether no process has opened the old store since. `database`: the old store's, open and locked."""
        return self.manifest == database.manifest_found and database.sequence_number >= self.sequence_number

    def is_untouched(self, database: LiveDatabase) -> bool:
        """Whether no process has written to the old store since, even if one has opened it."""
        return self.is_in_force(database) or database.sequence_number == self.sequence_number


def read_cursor(directory: Path) -> AdapterCursor | None:
    """The cursor in a directory; None: there is none, or it cannot be understood."""
    try:
        content = read_regular(directory / CURSOR_FILE)
        return None if content == _NOTHING_MOVED else AdapterCursor.model_validate_json(content)
    except (FileNotFoundError, ValidationError):
        return None


def announce(directory: Path) -> None:
    """Record that an adapter starts here, durably, before the new store is created, which is empty at first."""
    make_directories(directory)
    _write(directory, _NOTHING_MOVED)


def is_announced(directory: Path) -> bool:
    """Whether an adapter has started here, and has not moved anything."""
    file = directory / CURSOR_FILE
    return file.exists() and read_regular(file) == _NOTHING_MOVED


def write_cursor(directories: list[Path], cursor: AdapterCursor, previous_token: str | None) -> str:
    """Write the cursor with a new token, which is returned; durable in each directory then. Raises StorageError.

    The old store's directory is first, unless the two did not belong together: then no copy of the old one may match.
    """
    token = secrets.token_hex(16)
    content = cursor.model_copy(update={"token": token, "previous_token": previous_token})
    for directory in directories if previous_token is None else reversed(directories):
        _write(directory, content.model_dump_json(indent=1).encode())
    return token


def note_sequence_number(directory: Path) -> None:
    """Record the sequence number that a killed session reached, before the old store is opened again.

    Opening creates a manifest. If that session is killed too, only the sequence number shows that no other program has
    written.
    """
    cursor = read_cursor(directory)
    if cursor is None or cursor.is_at_rest or cursor.manifest != manifest_of(directory):
        return
    try:
        check_unlocked([directory / "LOCK"])
        with open_read_only(directory) as database:
            number = database.sequence_number
    except RefusedError:
        return  # opening the store raises it again
    if number >= cursor.sequence_number:
        cursor = cursor.model_copy(update={"sequence_number": number, "is_at_rest": True})
        _write(directory, cursor.model_dump_json(indent=1).encode())


def remove_cursor(directories: list[Path]) -> None:
    """Remove the cursor, durably. Raises StorageError."""
    for directory in directories:
        with _changing(directory):
            if (directory / CURSOR_FILE).exists():
                (directory / CURSOR_FILE).unlink()
                fsync_directory(directory)


def _write(directory: Path, content: bytes) -> None:
    with _changing(directory):
        write_durably(directory / CURSOR_FILE, content)


@contextmanager
def _changing(directory: Path) -> Iterator[None]:
    """Remove the temporary files of killed processes first. Raises StorageError in place of OSError."""
    try:
        for torn in directory.glob(f".{CURSOR_FILE}.*.tmp"):
            torn.unlink(missing_ok=True)
        yield
    except OSError as error:
        raise StorageError(f"{directory / CURSOR_FILE} cannot be written: {error}") from error


def has_started(directory: Path) -> bool:
    """Whether an adapter has worked here, and may have moved records."""
    return (directory / CURSOR_FILE).exists() and not is_announced(directory)


def half_converged(directory: Path) -> str | None:
    """The progress of an unfinished conversion by an adapter, in words; None: there is no cursor."""
    if not (directory / CURSOR_FILE).exists():
        return None
    cursor = read_cursor(directory)
    if cursor is None:
        return "half converged"
    left = f"{plural(cursor.left, 'record')} {'is' if cursor.left == 1 else 'are'} left"
    return f"half converged from {cursor.pair.source} to {cursor.pair.target}, about {left}"


def check_not_half_converged(directory: Path) -> None:
    """Raises RefusedError where an adapter has not finished: the directory does not hold the whole store."""
    if (how_far := half_converged(directory)) is not None:
        raise RefusedError(
            f"{directory} is {how_far}: its records are in two places",
            hint="open it with DualReadStore, as before, and let it converge: "
            "store.converge(None, None) does that in one call",
        )
