"""What a new store has where no new record is expected: between ranges that were compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrate.keyrange import KeyRange, show_key
from migrate.mismatch import Mismatch, differing
from migrate.stores.rocksdb import Database


def compare_gaps(
    target: Database, partition: str, family: str, ends: Sequence[tuple[bytes, bytes]]
) -> Iterator[tuple[int, Mismatch]]:
    """(how many keys, the first of them) that are not within a range; `ends`: each range's first and last new key."""
    begin = [None, *(last + b"\0" for _, last in ends)]
    found = differing(partition, "key", "", "", family=family)
    for start, end in zip(begin, [*(first for first, _ in ends), None], strict=True):
        if start is not None and end is not None and end < start:
            order = {"key": end, "field": "order of keys", "expected": f"after {show_key(start[:-1])}"}
            yield 1, found.model_copy(update={**order, "actual": "not"})
        elif extra := _extra_keys(target, family, KeyRange(start=start, end=end)):
            count, first = extra
            yield count, found.model_copy(update={"kind": "extra", "key": first})


def _extra_keys(target: Database, family: str, keys: KeyRange) -> tuple[int, bytes] | None:
    next_one = target.sample(family, keys.start, 1).keys  # mostly the next range's first
    if not next_one or next_one[0] not in keys:
        return None
    return sum(len(batch) for batch in target.batches(family, keys)), next_one[0]
