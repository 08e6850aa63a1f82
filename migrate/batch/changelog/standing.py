"""How far the changelogs of a migration are written and read back, by its ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from migrate.model.changelog import Part, Produced, Reread, Topics
from migrate.model.ledger_row import Row, Step, read_detail
from migrate.model.receipt import Receipt


@dataclass(frozen=True)
class ChangelogStanding:
    """What the ledger's rows say about changelogs. After a rollback nothing counts: both topics may have changed."""

    rows: Sequence[Row]

    @cached_property
    def opened(self) -> list[Topics]:
        """Every row about topics, in the order of commits, those without effect too."""
        return [_topics(row) for row in self.rows if row.step is Step.CHANGELOG]

    @cached_property
    def topics(self) -> Topics | None:
        """The topics that are written to; None: they are not made yet."""
        row = self._newest
        return None if row is None else _topics(row)

    @cached_property
    def _newest(self) -> Row | None:
        """The last row about topics, if they exist and no rollback followed."""
        last = next((row for row in reversed(self.rows) if row.step in (Step.CHANGELOG, Step.ROLLED_BACK)), None)
        return last if last is not None and last.step is Step.CHANGELOG and _topics(last).ids else None

    @cached_property
    def _since(self) -> Sequence[Row]:
        """The rows since the topics were made."""
        return () if self._newest is None else self.rows[self.rows.index(self._newest) + 1 :]

    @cached_property
    def produced(self) -> list[Produced]:
        """What was written to these topics, the newest receipt of each part and of each tail."""
        found = (read_detail(row, Produced, "a receipt of a changelog") for row in self._since if _is_receipt(row))
        return list({(each.part, each.tail): each for each in found}.values())

    def pending(self, contents: dict[Part, str]) -> list[Part]:
        """The parts without a receipt for what is to be written now."""
        done = {each.part: each.content for each in self.produced if not each.tail}
        return [part for part, content in contents.items() if done.get(part) != content]

    @property
    def last_offsets(self) -> dict[str, int | None]:
        """By store partition, the offset of the last record written, tails included; None: there is none."""
        found: dict[str, int | None] = dict.fromkeys(self._partitions)
        for each in self.produced:
            offsets = (found.get(each.store_partition), each.last_offset)
            found[each.store_partition] = max((offset for offset in offsets if offset is not None), default=None)
        return found

    @cached_property
    def reread(self) -> dict[str, Reread]:
        """By store partition, the last comparison, if nothing was written to a changelog since."""
        found: dict[str, Reread] = {}
        for row in self._since:
            if row.step is Step.REREAD:
                found[str(row.store_partition)] = read_detail(row, Reread, "a comparison of a changelog")
            elif _is_receipt(row):
                found.pop(str(row.store_partition), None)
        return found

    @property
    def is_verified(self) -> bool:
        """Whether every changelog was read back, and holds the new store."""
        equal = [key for key, found in self.reread.items() if found.ok]
        return bool(equal) and sorted(equal) == sorted(self._partitions)

    @property
    def _partitions(self) -> list[str]:
        return [] if self.topics is None else [each.store_partition for each in self.topics.changelogs]


def content_of(receipts: Sequence[Receipt], part: Part) -> str:
    """A digest of the new store's records that a part is made of, by the receipts of their chunks."""
    chunks = sorted(
        (each for each in receipts if each.store_partition == part.store_partition),
        key=lambda each: (each.database, each.keys.start or b""),
    )
    digest = hashlib.sha256()
    for each in chunks:
        if part.database in ("", each.database):
            digest.update(repr([(w.family, w.records, w.digest) for w in each.written]).encode())
    return digest.hexdigest()[:16]


def _topics(row: Row) -> Topics:
    return read_detail(row, Topics, "the topics of a migration")


def _is_receipt(row: Row) -> bool:
    return row.step is Step.PRODUCED
