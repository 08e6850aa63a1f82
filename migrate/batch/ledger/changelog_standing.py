"""How far the changelogs of a migration are written and read back, by its ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from migrate.model.changelogs import Produced, Rebuilt, Tail, TopicPart, Topics, rebuilt_in
from migrate.model.comparison import Reread
from migrate.model.display import plural
from migrate.model.ledger_row import Row, Step, read_detail
from migrate.model.receipt import Receipt
from migrate.model.reports import ChangelogReport


@dataclass(frozen=True)
class ChangelogStanding:
    """What the ledger's rows say about changelogs. After a rollback nothing counts: both topics may have changed."""

    rows: Sequence[Row]

    @cached_property
    def opened(self) -> list[Topics]:
        """Every row about topics, in the order of commits, those without effect too."""
        return [_topics(row) for row in self.rows if row.step is Step.CHANGELOG]

    @cached_property
    def topic_ids(self) -> set[str]:
        return {topic_id for each in self.opened for topic_id in each.ids.values()}

    @cached_property
    def topics(self) -> Topics | None:
        """The topics that are written to; None: they are not made yet."""
        rows = [row for row in self._written if row.step is Step.CHANGELOG]
        return _topics(rows[-1]) if rows else None

    @cached_property
    def _written(self) -> Sequence[Row]:
        """The rows since the last intent to make topics, if they exist and no rollback followed."""
        at = max((n for n, row in enumerate(self.rows) if _starts_over(row)), default=None)
        rows = () if at is None or self.rows[at].step is Step.ROLLED_BACK else self.rows[at + 1 :]
        return rows if any(row.step is Step.CHANGELOG for row in rows) else ()

    @cached_property
    def _facts(self) -> list[Produced | Reread]:
        """The receipts and comparisons of these topics, in the order of commits."""
        found: list[Produced | Reread] = []
        for row in self._written:
            if row.step is Step.PRODUCED:
                found.append(read_detail(row, Produced, "a receipt of a changelog"))
            elif row.step is Step.REREAD:
                found.append(read_detail(row, Reread, "a comparison of a changelog"))
        return found

    @cached_property
    def produced(self) -> list[Produced]:
        """What was written to these topics, the newest receipt of each part and of each tail."""
        receipts = (each for each in self._facts if isinstance(each, Produced))
        return list({(each.part, each.tail): each for each in receipts}.values())

    def last_tail(self, store_partition: str) -> int:
        """The number of the last tail of a store partition that was written, or adopted; 0: none."""
        return max((each.tail for each in self.produced if each.store_partition == store_partition), default=0)

    def pending(self, contents: dict[TopicPart, str]) -> list[TopicPart]:
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
        last = {each.store_partition: each for each in self._facts}
        return {partition: each for partition, each in last.items() if isinstance(each, Reread)}

    @cached_property
    def unread(self) -> dict[str, list[Produced]]:
        """By store partition, the receipts since the last comparison that found nothing wrong."""
        found: dict[str, list[Produced]] = {}
        for each in self._facts:
            if isinstance(each, Produced):
                found.setdefault(each.store_partition, []).append(each)
            elif each.ok:
                found.pop(each.store_partition, None)
        return found

    @cached_property
    def rebuilt(self) -> dict[str, Rebuilt]:
        """By store partition that no host has, what was made of its changelog in these topics."""
        return rebuilt_in(self._written)

    def unwritten_tails(self, tails: Mapping[str, Sequence[Tail]]) -> dict[str, list[Tail]]:
        """The tails that this host has claimed to write and has not written, by store partition that has some."""
        mine = () if self.topics is None else self.topics.claimed
        left = {each: [t for t in tails.get(each, ()) if t.number > self.last_tail(each)] for each in mine}
        return {partition: found for partition, found in left.items() if found}

    @property
    def unread_tails(self) -> list[str]:
        """The store partitions of this host whose tails were written, but not read back, as all before them was."""
        mine = () if self.topics is None else self.topics.claimed
        return [each for each, found in self.unread.items() if each in mine and all(receipt.tail for receipt in found)]

    @property
    def is_verified(self) -> bool:
        """Whether every changelog was read back, and holds the new store."""
        equal = [key for key, found in self.reread.items() if found.ok]
        return bool(equal) and sorted(equal) == sorted(self._partitions)

    @property
    def _partitions(self) -> list[str]:
        return [] if self.topics is None else [each.store_partition for each in self.topics.changelogs]


def changelog_reports(standing: ChangelogStanding, note: str = "") -> tuple[ChangelogReport, ...]:
    """What the ledger says of each changelog that was written; `note`: why it was not compared now."""
    if standing.topics is None:
        return ()
    found = []
    for new_topic, topic in standing.topics.names.items():
        mine = {each.store_partition for each in standing.topics.changelogs if each.new_topic == new_topic}
        written = [each for each in standing.produced if each.store_partition in mine]
        reread = [standing.reread.get(partition) for partition in mine]
        found.append(
            ChangelogReport(
                topic=topic,
                new_topic=new_topic,
                records=sum(each.records for each in written),
                tombstones=sum(each.tombstones for each in written),
                adopted=tuple(
                    dict.fromkeys(f"{each.store_partition} from {each.host}" for each in written if each.host)
                ),
                rebuilt=tuple(
                    f"{partition} ({plural(each.produced.records, 'record')})"
                    for partition, each in standing.rebuilt.items()
                    if each.changelog.new_topic == new_topic and each.is_done and each.produced is not None
                ),
                verified=not note and all(each is not None and each.ok for each in reread),
                outdated=sum(each.outdated for each in reread if each is not None),
                note=note,
            )
        )
    return tuple(found)


def contents_of(receipts: Sequence[Receipt], parts: Sequence[TopicPart]) -> dict[TopicPart, str]:
    """A digest of the new store's records that each part is made of, by the receipts of their chunks."""
    chunks: dict[str, list[Receipt]] = {}
    for each in sorted(receipts, key=lambda each: (each.database, each.keys.start or b"")):
        chunks.setdefault(each.store_partition, []).append(each)
    places = dict.fromkeys((part.store_partition, part.database) for part in parts)
    known = {place: _content_of(chunks.get(place[0], []), place[1]) for place in places}
    return {part: known[part.store_partition, part.database] for part in parts}


def _content_of(chunks: Sequence[Receipt], database: str) -> str:
    digest = hashlib.sha256()
    for each in chunks:
        if database in ("", each.database):
            digest.update(repr([(w.family, w.records, w.digest) for w in each.written]).encode())
    return digest.hexdigest()[:16]


def _topics(row: Row) -> Topics:
    return read_detail(row, Topics, "the topics of a migration")


def _starts_over(row: Row) -> bool:
    return row.step is Step.ROLLED_BACK or (row.step is Step.CHANGELOG and not _topics(row).ids)
