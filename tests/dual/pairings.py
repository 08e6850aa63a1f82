"""Old and new formats that a DualReadStore can stand between, and what each makes of an old record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formats import StateRecord
from migrate import DualReadStore, RocksStore, open_store
from migrate.stores.rocksdb.live import families_of
from tests.support import (
    KEY_VALUE,
    RAW,
    TIMESTAMPED,
    UNKNOWN_TIMESTAMP,
    Tables,
    make_families,
    make_store,
    read_families,
)
from tests.support import open_store as open_plainly

Records = Mapping[bytes, bytes]
TIMESTAMPED_FAMILY = "keyValueWithTimestamp"


class Bad:
    """What is seen of an old record that cannot be converted: an error."""

    def __repr__(self) -> str:
        return "BAD"


BAD = Bad()
Seen = bytes | Bad | None
"""None: nothing is seen of it."""


def loud(record: StateRecord) -> StateRecord:
    return StateRecord(record.key, record.value.upper())


def prefixed(record: StateRecord) -> StateRecord:
    return StateRecord(b"P" + record.key, record.value)


def without_prefix(key: bytes) -> bytes:
    return key[1:]


def choosy(record: StateRecord) -> StateRecord | None:
    """Drops what begins with d, chokes on what begins with x."""
    if record.value.startswith(b"x"):
        raise ValueError("x is not known")
    return None if record.value.startswith(b"d") else record


@dataclass(frozen=True, slots=True)
class Pairing:
    """One old and one new format, with the caller's own function where there is one."""

    name: str
    source: str
    target: str
    see: Callable[[bytes, bytes], tuple[bytes, Seen]]
    """The new key and what is seen there, of an old record."""
    source_family: str = "default"
    target_family: str = "default"
    """As the new format calls it; in one database `v2` where it would be the same as the old one."""
    convert: Callable[[StateRecord], StateRecord | None] | None = None
    old_key: Callable[[bytes], bytes] | None = None

    def arguments(self, *, two: bool) -> dict[str, Any]:
        """Of `DualReadStore.open`, without paths."""
        arguments: dict[str, Any] = {"source": self.source, "target": self.target}
        if self.convert is not None:
            arguments |= {"convert": self.convert, "may_drop": True}
        if self.old_key is not None:
            arguments["old_key"] = self.old_key
        if self.source == self.target == RAW and not two:
            arguments["target_family"] = "v2"
        return arguments

    def seen(self, old: Records) -> dict[bytes, bytes | Bad]:
        """What a DualReadStore shows of these old records."""
        pairs = (self.see(key, value) for key, value in old.items())
        return {key: value for key, value in pairs if value is not None}


def _timestamped(key: bytes, value: bytes) -> tuple[bytes, Seen]:
    return key, UNKNOWN_TIMESTAMP + value


def _plain(key: bytes, value: bytes) -> tuple[bytes, Seen]:
    return key, value[8:] if len(value) >= 8 else BAD


def _loud(key: bytes, value: bytes) -> tuple[bytes, Seen]:
    return key, value.upper()


def _prefixed(key: bytes, value: bytes) -> tuple[bytes, Seen]:
    return b"P" + key, value


def _choosy(key: bytes, value: bytes) -> tuple[bytes, Seen]:
    return key, BAD if value.startswith(b"x") else None if value.startswith(b"d") else value


UPGRADE = Pairing("upgrade", KEY_VALUE, TIMESTAMPED, _timestamped, target_family=TIMESTAMPED_FAMILY)
DOWNGRADE = Pairing("downgrade", TIMESTAMPED, KEY_VALUE, _plain, source_family=TIMESTAMPED_FAMILY)
LOUD = Pairing("own function", RAW, RAW, _loud, convert=loud)
PREFIXED = Pairing("other keys", RAW, RAW, _prefixed, convert=prefixed, old_key=without_prefix)
CHOOSY = Pairing("drops and fails", RAW, RAW, _choosy, convert=choosy)
PAIRINGS = (UPGRADE, DOWNGRADE, LOUD, PREFIXED, CHOOSY)


@dataclass(frozen=True, slots=True)
class Ground:
    """The directories that one store lies in."""

    base: Path
    pairing: Pairing
    two: bool

    @property
    def old(self) -> Path:
        return self.base / "old"

    @property
    def path(self) -> Path:
        return self.base / "new" if self.two else self.old

    def make(self, old: Records, *, flush: bool = True) -> None:
        """The old store, as its owner left it."""
        if self.pairing.source_family == "default":
            make_store(self.old, old, flush=flush)
        else:
            make_families(self.old, {"default": {}, self.pairing.source_family: old}, flush=flush)

    def open(self, **options: Any) -> DualReadStore:  # noqa: ANN401 - any of DualReadStore.open
        arguments = self.pairing.arguments(two=self.two) | options
        return DualReadStore.open(self.path, old_path=self.old if self.two else None, **arguments)

    def open_plain(self, *, read_only: bool = True) -> RocksStore:
        """As the new format's owner opens it."""
        family = self.pairing.arguments(two=self.two).get("target_family")
        return open_store(self.path, format=self.pairing.target, family=family, read_only=read_only)

    def raw_old(self) -> dict[bytes, bytes]:
        """What the old store holds, read without an adapter."""
        return read_families(self.old).get(self.pairing.source_family, {})

    def raw_new(self) -> dict[bytes, bytes]:
        """What the new store holds, read without an adapter."""
        family = self.pairing.arguments(two=self.two).get("target_family", self.pairing.target_family)
        return read_families(self.path).get(family, {})

    def write_old(self, records: Records) -> None:
        """The old code runs for a while."""
        with open_plainly(self.old) as database:
            name = self.pairing.source_family
            if name not in families_of(self.old):  # an adapter has dropped it
                database.create_column_family(name, Tables().options())
            column = database.get_column_family(name)
            for key, value in records.items():
                column[key] = value
            del column
