"""The way back at the broker: the group's offsets are set back, and the old stores' values are appended again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migrate.batch.changelog.broker.claims import fleet_of
from migrate.batch.changelog.broker.connect import cluster_of
from migrate.batch.changelog.broker.group import merged, moved_since, set_back
from migrate.batch.changelog.broker.ownership import check_still_ours
from migrate.batch.changelog.broker.stopped import check_group
from migrate.batch.changelog.lines import line_after
from migrate.batch.changelog.undo import undo
from migrate.batch.switch.migration import Migration
from migrate.batch.switch.places import Places
from migrate.model.journal import AtCutOver, Journal
from migrate.model.reports import SetBack
from migrate.model.store_partition import Line


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
        topics = self.at.topics
        with cluster_of(self.migration.spec, "the cut-over has rewritten changelogs") as cluster:
            check_group(cluster, topics.application, self.migration.spec)
            for name in topics.names if topics.way == "append" else ():
                check_still_ours(cluster, topics, name)
            moved = () if self.leaves_offsets else moved_since(cluster, topics.application, self.at.offsets)
        at = self.at.model_copy(update={"set_back": merged(self.at.set_back, moved)})
        return journal.model_copy(update={"broker": at})

    def carry_out(self, moved: Sequence[SetBack]) -> dict[str, Line]:
        """Set these offsets back, and append the old values again; every attempt does all of it.

        Returns the lines of the old stores, by store partition, where their changelogs have got records.
        """
        migration, topics, lines = self.migration, self.at.topics, dict[str, Line]()
        fleet = fleet_of(migration.spec, topics)
        with cluster_of(migration.spec) as cluster:
            if not self.leaves_offsets:
                set_back(cluster, topics.application, self.at.offsets, moved)
            migration.notify("rollback.offsets-set-back")
            if topics.way == "append":
                fleet.mark("writing")
                for old in (each for each in self.every if each.entry.partition.id in topics.claimed):
                    name, directories = old.entry.partition.id, old.entry.partition.below(old.old_store)
                    standing, changelog = migration.standing, topics.of(name)
                    last = undo(cluster, migration.spec, standing, topics, partition=name, directories=directories)
                    if last is not None:
                        lines[name] = line_after(migration.system, changelog.topic, changelog.number, last)
            fleet.give_up()
        if topics.way == "append":
            migration.notify("rollback.undone")
        return lines
