"""What a switch asks of the broker and does there: who is at work, what changelogs hold, where inputs are read on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from migrate.batch.changelog.broker.claims import Fleet
from migrate.batch.changelog.broker.group import (
    committed_offsets,
    has_records,
    hidden_offsets,
    merged,
    moved_since,
    set_back,
)
from migrate.batch.changelog.broker.stopped import check_group, check_repartition, end_transactions, open_transaction
from migrate.batch.changelog.lines import line_after
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.changelog.topics import AssembledStores
from migrate.batch.changelog.undo import check_is_ours, old_store, undo
from migrate.batch.changelog.ways import application_of, reached
from migrate.batch.changelog.write import connection_of
from migrate.batch.changelog.writing import end_writing
from migrate.batch.home import CHANGELOG
from migrate.batch.ledger.gates import Acceptance, require_acceptance, signed_off
from migrate.batch.source.source import Source
from migrate.batch.switch.migration import Migration
from migrate.batch.switch.places import Places
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.model.changelog.written import Changelog, Topics
from migrate.model.journal import AtCutOver, Journal
from migrate.model.plan import Plan
from migrate.model.reports import Concern, Doubt, SetBack
from migrate.model.store_partition import Line
from migrate.spec.allowed import UNVERIFIED, allowing

_AT_ONCE = 8
"""Changelogs that are looked at side by side."""
_RUN = "stateferry run SPEC"
_WAIT = (
    "wait until it ends (transaction.timeout.ms), then run the same command again; or end what dead instances of this "
    "host left open: stateferry cutover SPEC --fence"
)


def accepted_changelogs(migration: Migration, plan: Plan, acceptance: Acceptance) -> tuple[Concern, ...]:
    """The concerns about the changelogs that were accepted.

    Raises RefusedError where a changelog is not written, or not verified; VerificationError where it is wrong.
    """
    standing = ChangelogStanding(migration.standing.rows)
    topics = standing.topics
    if topics is None:
        raise RefusedError("the changelogs of the new stores are not written", hint=f"{_RUN} writes them")
    stores = AssembledStores(plan, migration.standing.assembled, migration.standing.receipts)
    if pending := standing.pending(stores.contents(topics.parts)):
        raise RefusedError(f"the {pending[0]} is not written", hint=f"{_RUN} writes the rest")
    concerns = _concerns(migration, standing, acceptance)
    require_acceptance(concerns, "nothing was cut over")
    return signed_off(concerns)


def _concerns(migration: Migration, standing: ChangelogStanding, acceptance: Acceptance) -> tuple[Concern, ...]:
    fix = "stateferry verify SPEC reads them back, and so does stateferry run SPEC unless [run] verify is off"
    if wrong := [partition for partition, found in standing.reread.items() if not found.ok]:
        sentence = f"the changelog of {wrong[0]} was read back, and does not hold the new store"
        return (Concern(kind="mismatch", sentence=sentence, fix=fix),)
    if standing.is_verified:
        return ()
    allowed = allowing(UNVERIFIED) if UNVERIFIED in migration.spec.conversion.allow else ""
    return (
        Concern(
            kind="unverified",
            sentence="the changelogs of the new stores were not read back",
            fix=f"{fix}; to go live without: stateferry cutover SPEC --unverified",
            accepted="--unverified" if acceptance.unverified else allowed,
        ),
    )


def check_nobody_is_at_work(migration: Migration) -> None:
    """Raises RefusedError while the application's group has members. Without `[changelog]` no broker is asked."""
    if migration.spec.changelog is not None:
        with Cluster(connection_of(migration.spec)) as cluster:
            check_group(cluster, application_of(migration.spec))


def ask_broker(migration: Migration, source: Source, *, fence: bool) -> tuple[AtCutOver | None, tuple[str, ...]]:
    """What the broker says at a cut-over, None where nothing was written there; and warnings.

    `fence`: transactions that dead instances of this host left open are ended. Raises RefusedError where the
    application is at work, or a changelog is not as the stores need it.
    """
    if migration.spec.changelog is None:
        return None, ()
    connection, application = connection_of(migration.spec), application_of(migration.spec)
    standing = ChangelogStanding(migration.standing.rows)
    with Cluster(connection) as cluster:
        group = check_group(cluster, application)
        warnings = (f"{group.detail}: {group.fix}",) if isinstance(group, Doubt) else ()
        if standing.topics is None:
            return None, warnings
        if fence:
            end_transactions(cluster, migration.spec, source, standing.topics.changelogs, ours={})
        end_writing(cluster, migration.home)
        at, topics = reached(migration.spec, migration.standing.rows, source), standing.topics

        def check(each: Changelog) -> None:
            _check_old(cluster, connection, topics, each, at[each.store_partition] or 0)
            _check_new(cluster, connection, standing, topics, each)

        with ThreadPoolExecutor(_AT_ONCE) as threads:  # the application waits for it
            for _ in threads.map(check, topics.changelogs):
                pass
        check_repartition(cluster, connection, migration.spec, topics.changelogs)
        offsets = committed_offsets(cluster, connection, application)
        if not offsets and not warnings:
            hidden = hidden_offsets(application)
            warnings = (f"{hidden.detail}: {hidden.fix}",)
        return AtCutOver(topics=topics, offsets=offsets), warnings


def mark_whole(migration: Migration, at: AtCutOver) -> None:
    """Say at the broker that what this host has written is in use."""
    Fleet(connection_of(migration.spec), migration.spec.name, at.topics).mark("in-use")


def _check_old(cluster: Cluster, connection: Connection, topics: Topics, changelog: Changelog, reached: int) -> None:
    check_is_ours(cluster, topics, changelog.topic)
    topic, number = changelog.topic, changelog.number
    ends = cluster.ends_of(topic, number)
    if ends.stable < ends.end:
        raise open_transaction((changelog, ends), _WAIT)
    end = topics.starts[changelog.store_partition] if topics.way == "append" else ends.stable
    if has_records(connection, topic, number, max(reached, ends.start), end):
        raise RefusedError(
            f"the changelog {topic}, partition {number}, has records from offset {reached} on, which the new store "
            "lacks: the application went on",
            hint="stateferry catch-up SPEC brings them, once the application has stopped",
        )


def _check_new(
    cluster: Cluster, connection: Connection, standing: ChangelogStanding, topics: Topics, changelog: Changelog
) -> None:
    check_is_ours(cluster, topics, changelog.new_topic)
    topic, number = changelog.new_topic, changelog.number
    ends, last = cluster.ends_of(topic, number), standing.last_offsets[changelog.store_partition]
    after = topics.starts[changelog.store_partition] if last is None else last + 1
    if after > ends.end:
        raise RefusedError(
            f"{topic}, partition {number}, ends at offset {ends.end}, and {last} was confirmed: the broker has lost "
            "records",
            hint="stateferry abandon SPEC, then stateferry run SPEC, writes them again",
        )
    if ends.stable < ends.end or has_records(connection, topic, number, max(after, ends.start), ends.stable):
        raise RefusedError(
            f"{topic}, partition {number}, has records after offset {after - 1}, which this migration did not write",
            hint="has an application of the new version been started? stateferry abandon SPEC, then stateferry run "
            "SPEC, starts over",
        )


@dataclass(frozen=True, slots=True)
class WayBack:
    """The way back at the broker, where changelogs were written for the new stores."""

    migration: Migration
    every: Sequence[Places]
    at: AtCutOver
    leaves_offsets: bool
    """Whether what was read since stays read: the old stores lack it."""

    def begin(self, journal: Journal) -> Journal:
        """The journal with what will be set back. Raises RefusedError where it cannot be, or somebody is at work."""
        if self.migration.spec.changelog is None:
            raise RefusedError(
                "the cut-over has rewritten changelogs, and the spec no longer says where they are",
                hint="restore [changelog] in the spec",
            )
        with Cluster(connection_of(self.migration.spec)) as cluster:
            check_group(cluster, self._application)
            for name in dict.fromkeys(each.new_topic for each in self.at.topics.changelogs if self._is_appended):
                check_is_ours(cluster, self.at.topics, name)
            moved = () if self.leaves_offsets else moved_since(cluster, self._application, self.at.offsets)
        at = self.at.model_copy(update={"set_back": merged(self.at.set_back, moved)})
        return journal.model_copy(update={"broker": at})

    def carry_out(self, moved: Sequence[SetBack]) -> dict[str, Line]:
        """Set these offsets back, and append the old values again; every attempt does all of it.

        Returns the lines of the old stores, by store partition, where their changelogs have got records.
        """
        notify, migration = self.migration.notify, self.migration
        connection = connection_of(migration.spec)
        with Cluster(connection) as cluster:
            if not self.leaves_offsets:
                set_back(cluster, self._application, self.at.offsets, moved)
            notify("rollback.offsets-set-back")
            fleet, lines = Fleet(connection, migration.spec.name, self.at.topics), dict[str, Line | None]()
            if self._is_appended:
                fleet.mark("writing")
                written = (each for each in self.every if each.entry.partition.id in self.at.topics.claimed)
                lines = {places.entry.partition.id: self._undone(cluster, connection, places) for places in written}
            fleet.give_up()
        if not self._is_appended:
            return {}
        notify("rollback.undone")
        return {partition: line for partition, line in lines.items() if line is not None}

    def _undone(self, cluster: Cluster, connection: Connection, places: Places) -> Line | None:
        partition, plan = places.entry.partition, self.migration.standing.plan
        assert plan is not None
        changelog = self.at.topics.of(partition.id)
        last = undo(
            cluster,
            connection,
            self.migration.migration_id,
            topics=self.at.topics,
            changelog=changelog,
            old=old_store(
                self.migration.spec, self.migration.standing, plan, partition, partition.below(places.old_store)
            ),
            folder=scratch(self.migration.home, partition.id),
        )
        return None if last is None else line_after(self.migration.system, changelog.topic, changelog.number, last)

    @property
    def _is_appended(self) -> bool:
        return self.at.topics.way == "append"

    @property
    def _application(self) -> str:
        return self.at.topics.application


def scratch(home: Path, partition: str) -> Path:
    """A folder for what an undo does not keep in memory."""
    return home / CHANGELOG / partition / "undo"
