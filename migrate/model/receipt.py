"""Receipts of chunk attempts, written by the task that made the attempt and committed by the driver."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from migrate.model.key_range import KeyRange
from migrate.model.preview import RejectReason, Shown
from migrate.model.store_partition import place_name
from migrate.model.values import Stored, read_sealed

RECEIPT_SCHEMA: Final = 1


class Scanned(Stored):
    """The records read from one column family of the source."""

    family: str
    records: int
    size: int
    digest: str


class Written(Stored):
    """The records written for one column family of the new store."""

    family: str
    file: str | None
    """The SST file, relative to the migration's folder; None: this range gave no record."""
    file_size: int
    """The file's bytes on disk."""
    records: int
    size: int
    digest: str
    first_key: bytes | None
    last_key: bytes | None


class Receipt(Stored):
    """One attempt at a chunk, complete and durable."""

    schema_version: Literal[1] = RECEIPT_SCHEMA
    migration_id: str
    run_id: str
    attempt: str
    store_partition: str
    database: str
    number: int
    keys: KeyRange
    scanned: tuple[Scanned, ...]
    written: tuple[Written, ...]
    dropped: int
    """Values that the function dropped: records, and former values of keys of a versioned store."""
    entries_dropped: int
    """Records read without one written because of that."""
    not_carried: int = 0
    """Records that the new format does not carry: former values, and keys of the owning system's own."""
    dropped_keys: tuple[Shown, ...] = ()
    """The first keys of dropped values."""
    rejected: int
    rejects_file: str | None
    """Parquet, relative to the migration's folder: the rejected records, if they are written as dead letters."""
    rejects_digest: str | None = None
    """SHA-256 of that file."""
    expired: int = 0
    """Records older than the new store's retention."""
    collided: int = 0
    """Records whose new key another record has too, which is newer."""
    collided_sum: str = ""
    """The sum of their hashes (`engine.sums`), in hexadecimal digits; empty: there are none."""
    is_sorted: bool = False
    """Whether `keys` are new ones: what was read for them was sorted."""
    shadowed: int = 0
    """Records of a pre-upgrade family whose key the upgraded family has too; they are not read."""
    seconds: float
    engine: str
    is_after_death: bool = False
    """Whether the portable engine did it because a process had died at it in another one."""
    host: str
    code: dict[str, str] = Field(default_factory=dict)
    """Digests, by path, of the user's code that was loaded."""
    reasons: tuple[RejectReason, ...] = ()
    """The most frequent reasons of the rejected records."""
    revision: str = ""
    """The revision of the conversion that made it; empty: the first one."""

    @property
    def file_sizes(self) -> dict[str, int]:
        """The size of each SST file in bytes, by path relative to the migration's folder."""
        return {written.file: written.file_size for written in self.written if written.file is not None}

    @property
    def files(self) -> tuple[str, ...]:
        """All files of the attempt, relative to the migration's folder."""
        files = [written.file for written in self.written] + [self.rejects_file]
        return tuple(file for file in files if file is not None)

    def renamed(self, run_id: str, attempt: str) -> Receipt:
        """The same work under another attempt's name, and its files under that name."""

        def rename(file: str | None) -> str | None:
            return None if file is None else file.replace(self.attempt, attempt)

        written = tuple(each.model_copy(update={"file": rename(each.file)}) for each in self.written)
        changes = {"run_id": run_id, "attempt": attempt, "written": written}
        return self.model_copy(update={**changes, "rejects_file": rename(self.rejects_file)})

    @property
    def records_in(self) -> int:
        return sum(scanned.records for scanned in self.scanned)

    @property
    def records_out(self) -> int:
        return sum(written.records for written in self.written)

    @property
    def left_out(self) -> int:
        """Records read without one written."""
        return self.entries_dropped + self.not_carried + self.rejected + self.expired + self.collided

    @property
    def bytes_in(self) -> int:
        """Bytes of keys and values read."""
        return sum(scanned.size for scanned in self.scanned)

    @property
    def bytes_out(self) -> int:
        """Bytes of keys and values written."""
        return sum(written.size for written in self.written)

    def __str__(self) -> str:
        return f"{place_name(self.store_partition, self.database)} chunk {self.number} {self.keys}"


def attempt_name(run_id: str, number: int) -> str:
    """A unique name for an attempt; it starts with the run's id, so that no older run takes it for its own."""
    return f"{run_id}-{number:06d}-{uuid.uuid4().hex[:8]}"


def attempt_of(file: str) -> str:
    """The attempt that a file belongs to, by the file's name."""
    return file.lstrip(".").partition(".")[0]


def run_of(file: str) -> str:
    """The id of the run that a chunk's file belongs to, by the file's name."""
    return file.lstrip(".").partition("-")[0]


def read_receipt(file: Path) -> Receipt | None:
    """The receipt in a file; None: it is damaged, or of another release."""
    text, is_whole = read_sealed(file.read_bytes())
    try:
        return Receipt.model_validate_json(text) if is_whole else None
    except ValidationError:
        return None
