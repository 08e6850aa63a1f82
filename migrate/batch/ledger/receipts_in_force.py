"""Which key ranges the ledger's receipts cover, which chunks are pending, and revisions of the conversion.

A revision is a changed function that takes over within the same migration: it replaces the function's part of the
identity. It voids the chunks with rejected records, and every new store that was assembled before. The other chunks
stay, and a full verification has to show that they may.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from migrate.engine.left_out import FIRST_KEYS
from migrate.model.changelogs import Tail
from migrate.model.comparison import Totals
from migrate.model.key_range import KeyRange, subtract
from migrate.model.ledger_row import Row, Step
from migrate.model.plan import Chunk, Plan
from migrate.model.receipt import Receipt
from migrate.model.values import Stored

FIRST = ""
"""The id of the conversion that the migration was started with."""
Place = tuple[str, str]
"""(store partition, database)"""


def in_force(receipts: list[Receipt]) -> list[Receipt]:
    """The receipts that no later one replaces: an overlap means that the chunk was rewritten on purpose."""
    return [receipt for each in disjoint(receipts).values() for receipt in each.receipts]


class Disjoint:
    """Receipts of one place whose ranges share no key, in key order."""

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []
        self._starts: list[bytes] = []

    def replace(self, receipt: Receipt) -> None:
        """Put a receipt in the place of those with which it shares a key."""
        place = self._place_of(receipt.keys)
        self.receipts[place] = [receipt]
        self._starts[place] = [receipt.keys.start or b""]

    def overlapping(self, keys: KeyRange) -> list[Receipt]:
        return self.receipts[self._place_of(keys)]

    def _place_of(self, keys: KeyRange) -> slice:
        first = keys.start or b""
        begin = bisect_left(self._starts, first)
        if begin > 0 and ((before := self.receipts[begin - 1].keys.end) is None or before > first):
            begin -= 1
        return slice(begin, len(self._starts) if keys.end is None else bisect_left(self._starts, keys.end))


def under_policy(receipts: list[Receipt], on_reject: str, on_collision: str | None) -> list[Receipt]:
    """The receipts whose rejects and collisions were treated as the spec now requires; other chunks are rewritten."""
    return [
        receipt
        for receipt in receipts
        if (on_collision is not None or not receipt.collided)
        and (
            not receipt.rejected
            or on_reject == "skip"
            or (on_reject == "dead-letter" and receipt.rejects_file is not None)
        )
    ]


def has_files(receipt: Receipt, home: Path) -> bool:
    """Whether all files of the receipt exist and have the recorded sizes."""
    if receipt.rejects_file is not None and _size(home, receipt.rejects_file) is None:
        return False
    return all(_size(home, file) == size for file, size in receipt.file_sizes.items())


def _size(home: Path, file: str) -> int | None:
    """The size of a file in bytes; None: there is no such file."""
    try:
        status = os.stat(f"{home}/{file}")  # noqa: PTH116 - thousands of files: a Path is slow
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def pending_chunks(plan: Plan, receipts: list[Receipt]) -> list[Chunk]:
    """The plan's chunks, less the ranges that are finished, under whatever plan revision."""
    as_planned = {_range_of(receipt) for receipt in receipts}
    others = [chunk for chunk in plan.chunks if _range_of(chunk) not in as_planned]
    done = disjoint(receipts if others else [])
    pending = []
    for chunk in others:
        mine = done[chunk.store_partition, chunk.database]
        left = subtract(chunk.keys, [receipt.keys for receipt in mine.overlapping(chunk.keys)])
        pending += [chunk.model_copy(update={"keys": keys}) for keys in left]
    return pending


def _range_of(each: Chunk | Receipt) -> tuple[str, str, bytes | None, bytes | None]:
    return each.store_partition, each.database, each.keys.start, each.keys.end


def attempts_at(receipts: list[Receipt], others: Iterable[Receipt]) -> set[str]:
    """The attempts, of receipts in force, that share a key with one of the others."""
    done = disjoint(receipts)
    found: set[str] = set()
    for each in others:
        mine = done[each.store_partition, each.database]
        found |= {receipt.attempt for receipt in mine.overlapping(each.keys)}
    return found


def disjoint(receipts: Iterable[Receipt]) -> defaultdict[Place, Disjoint]:
    """The receipts of each place, of which a later one replaces those with which it shares a key."""
    found: defaultdict[Place, Disjoint] = defaultdict(Disjoint)
    for receipt in receipts:
        found[receipt.store_partition, receipt.database].replace(receipt)
    return found


def totals_of(receipts: list[Receipt], tails: Iterable[Tail] = ()) -> Totals:
    """The sums over these receipts, and the tails that are applied to their chunks."""
    every: list[Receipt | Tail] = [*receipts, *tails]
    counts = Totals.model_fields.keys() - {"chunks", "task_seconds", "dropped_keys"}
    keys = chain.from_iterable(each.dropped_keys for each in every)
    return Totals(
        chunks=len(receipts),
        task_seconds=round(sum(each.seconds for each in every), 3),
        dropped_keys=tuple(nsmallest(FIRST_KEYS, keys, key=attrgetter("hex"))),
        **{name: sum(getattr(each, name, 0) for each in every) for name in counts},
    )


class Revision(Stored):
    """A changed function, as the ledger records it."""

    number: int
    function: dict[str, str]
    """The function's part of the identity: digests, with their scheme, by name."""
    by: str
    """The user who registered it."""
    superseded: tuple[str, ...] = ()
    """The attempts that no longer count: their chunks are rewritten."""

    @property
    def id(self) -> str:
        """The id by which receipts and assembled stores name the conversion that made them."""
        digest = hashlib.sha256(json.dumps(self.function, sort_keys=True).encode()).hexdigest()
        return f"{self.number}-{digest[:16]}"


def is_of_function(name: str) -> bool:
    """Whether a part of the identity is one of the function's."""
    return name == "function" or name.startswith("function: ")


def function_of(identity: Mapping[str, str]) -> dict[str, str]:
    """The function's part of an identity."""
    return {name: digest for name, digest in identity.items() if is_of_function(name)}


def revised(identity: Mapping[str, str], revision: Revision | None) -> dict[str, str]:
    """The identity with the function of this revision."""
    if revision is None:
        return dict(identity)
    return {name: digest for name, digest in identity.items() if not is_of_function(name)} | revision.function


def assembled_by(revision: str, rows: Iterable[Row]) -> list[tuple[str, dict[str, Any]]]:
    """The facts of each assembly by the conversion of this id, in order, with the id of its store partition."""
    made = ((str(row.store_partition), row.facts) for row in rows if row.step is Step.ASSEMBLED)
    return [each for each in made if each[1].get("revision", FIRST) == revision]
