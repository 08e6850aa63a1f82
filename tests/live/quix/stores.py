"""Stores that the real Quix Streams writes, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from quixstreams.state.rocksdb import RocksDBStore
from quixstreams.state.rocksdb.timestamped import TimestampedStore
from quixstreams.state.rocksdb.windowed.store import WindowedRocksDBStore

TTL = timedelta(hours=1)
NOW_MS = 1_767_225_600_000
Values = Mapping[bytes, Mapping[Any, Any]]
"""By the message's key and the name in the state; bytes are set as they are."""


def make_store(
    home: Path,
    content: Mapping[int, Values],
    *,
    offsets: Mapping[int, int] | None = None,
    stream: str = "orders",
    ttl: timedelta | None = None,
) -> Path:
    """Write these values, by partition; the consumer group's directory. `ttl`: of each value not named "kept"."""
    store: Any = RocksDBStore("default", stream, str(home))
    for number, values in content.items():
        transaction = store.assign_partition(number).begin()
        for key, state in values.items():
            view = transaction.as_state(prefix=key, timestamp=NOW_MS)
            for name, value in state.items():
                lasting = {} if ttl is None or name == "kept" else {"ttl": ttl}
                (view.set_bytes if isinstance(value, bytes) else view.set)(name, value, **lasting)
        transaction.prepare(processed_offsets={stream: 1})
        transaction.flush(changelog_offset=(offsets or {}).get(number))
    store.close()
    return home


def _window(home: Path) -> None:
    def write(transaction: Any) -> None:  # noqa: ANN401 - of Quix Streams
        transaction.as_state(prefix=b"k").update_window(0, 10_000, value=1, timestamp_ms=5)

    _written(WindowedRocksDBStore("tumbling", "orders", str(home)), write)


def _collection(home: Path) -> None:
    def write(transaction: Any) -> None:  # noqa: ANN401 - of Quix Streams
        transaction.as_state(prefix=b"k").add_to_collection(id=5, value=1)

    _written(WindowedRocksDBStore("collecting", "orders", str(home)), write)


def _join(home: Path) -> None:
    def write(transaction: Any) -> None:  # noqa: ANN401 - of Quix Streams
        transaction.set_for_timestamp(5, {"a": 1}, prefix=b"k")

    _written(TimestampedStore("join", "orders", str(home), grace_ms=1000, keep_duplicates=False), write)


def _written(store: Any, write: Callable[[Any], None]) -> None:  # noqa: ANN401 - of Quix Streams
    transaction = store.assign_partition(0).begin()
    write(transaction)
    transaction.prepare()
    transaction.flush(changelog_offset=1)
    store.close()


OTHER_KINDS: Mapping[str, Callable[[Path], None]] = {"tumbling": _window, "collecting": _collection, "join": _join}
"""By the store's name, what makes one that cannot be converted."""
