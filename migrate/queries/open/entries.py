"""`Entries` of RocksDB directories that are held open: of one, or of an old and a new store read as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from migrate.dual.conversion import LazyConversion
from migrate.dual.merge import ConvertedScan, MergedScan
from migrate.errors import RefusedError
from migrate.queries.open.partition import Entries
from migrate.stores.records import BatchSource, Record
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.held import HeldDirectory
from migrate.stores.rocksdb.live import read_only_family
from migrate.stores.rocksdb.scan import OnColumns, damaged


class HeldEntries:
    """One column family of a RocksDB directory whose files are held open."""

    def __init__(
        self,
        directory: HeldDirectory,
        database: Database,
        family: str,
        own: tuple[bytes, ...] = (),
        on_columns: OnColumns | None = None,
    ) -> None:
        """`own`: what the keys begin with that are the owning system's, and no records; `on_columns`: for wide-column
        records, where the store may have them."""
        self._directory = directory
        self._family = read_only_family(database, family, on_columns)
        self._family.where = f"column family {family!r} of {directory.name}"
        self._read: Callable[[bytes], bytes | None] = self._family.get
        self._own = own

    def get(self, key: bytes) -> bytes | None:
        """The stored value of a stored key, or None. Raises CorruptionError, and TypeError for what is no bytes."""
        try:
            value = self._read(key)
        except RefusedError:
            raise
        except Exception as error:
            if isinstance(key, bytes):
                raise damaged(self._family.where, key, str(error)) from error
            raise TypeError("keys are bytes") from error
        return value if not self._own or not key.startswith(self._own) else None

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:
        """The entries in [start, end), in the order of keys or the reverse."""
        scan = self._family.scan(start, end, reverse=reverse)
        return _WithoutOwn(scan, self._own) if self._own else scan

    @property
    def estimated_records(self) -> int:
        """RocksDB's own estimate."""
        return self._family.estimated_records


@dataclass(frozen=True, slots=True)
class _WithoutOwn:
    """A scan without the owning system's own entries."""

    scan: BatchSource
    own: tuple[bytes, ...]

    def pull(self, limit: int) -> list[Record]:
        while records := self.scan.pull(limit):
            if left := [record for record in records if not record[0].startswith(self.own)]:
                return left
        return []

    def close(self) -> None:
        self.scan.close()


@dataclass(frozen=True, slots=True)
class MergedEntries:
    """New entries, and the converted old ones of keys that have none; the old store was opened first."""

    new: Entries
    old: Entries
    conversion: LazyConversion

    def get(self, key: bytes) -> bytes | None:
        """The new value of a new key, or None. Raises ConversionError where the old record cannot be converted."""
        value = self.new.get(key)
        if value is not None or (old_key := self.conversion.old_key_of(key)) is None:
            return value
        if (old_value := self.old.get(old_key)) is None:
            return None
        record = self.conversion.one(old_key, old_value)
        return None if record is None or record[0] != key else record[1]

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:
        """Both, merged. Raises ConversionError where it reaches an old record that cannot be converted."""
        changes_keys = self.conversion.changes_keys
        old = self.old.scan(None, None, reverse=reverse) if changes_keys else self.old.scan(start, end, reverse=reverse)
        converted = ConvertedScan(old, self.conversion, start, end, reverse=reverse)
        new = self.new.scan(start, end, reverse=reverse)
        return MergedScan(new, converted, reverse=reverse, fails_at_once=changes_keys)

    @property
    def estimated_records(self) -> int:
        """The sum of both estimates."""
        return self.new.estimated_records + self.old.estimated_records
