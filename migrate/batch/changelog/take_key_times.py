"""The times of keys that old changelogs have: each store partition gets a sorted run of them before it is rewritten.

A run is durable before its row names it. Chunks take their times from it, and so does the verification; a rerun keeps
it as long as it is intact.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property

from formats import Conversion
from migrate.batch.changelog.broker_access import cluster_of
from migrate.batch.changelog.store_changelogs import changelogs, positions
from migrate.batch.chunk.executor import Executor, run_all
from migrate.batch.chunk.key_times_task import TimesTask, make_times
from migrate.batch.chunk.task import Task
from migrate.batch.context import Context
from migrate.batch.home import CHANGELOG, remove_sorted_runs
from migrate.batch.plan.sample import KnownTimes
from migrate.batch.source.source import Source
from migrate.engine.key_times import open_times
from migrate.errors import ChangelogFailedError, RefusedError
from migrate.kafka.cluster import Cluster, Ends
from migrate.model.changelogs import Changelog, Times
from migrate.model.ledger_row import Step
from migrate.spec.changelog_way import takes_times, way_of
from migrate.spec.spec import Spec

MOST_SAMPLED = 20_000
"""Changelog records of one store partition that are read for a sample."""


class SampledTimes(ExitStack):
    """Times for samples, made in a temporary folder; a context manager.

    Of each changelog its last records before the store's position are read: what they say of a key is the last word.
    """

    def __init__(self, spec: Spec, conversion: Conversion, source: Source, *, every: bool = False) -> None:
        """`every`: all records of the changelogs are read."""
        super().__init__()
        self._spec = spec
        self._unknown_ms = conversion.default_timestamp_ms
        self._source = source
        self._most = None if every else MOST_SAMPLED
        self._known: dict[str, KnownTimes] = {}

    @property
    def are_whole(self) -> bool:
        """Whether all that were asked for have what the changelog tells of every key."""
        return all(each.is_whole for each in self._known.values())

    @property
    def in_words(self) -> str:
        if self.are_whole:
            return "those of the changelogs, which were read from their first record to the stores' positions"
        return (
            f"those of the changelogs: the sample has keys that {MOST_SAMPLED:,} records of each name, the last ones "
            "before the store's position; other keys were not tried (--full reads whole changelogs)"
        )

    def of(self, partition: str) -> KnownTimes:
        """The times of a store partition. Raises ChangelogFailedError where the changelog cannot be read."""
        if partition not in self._known:
            self._known[partition] = self._read(partition)
        return self._known[partition]

    @cached_property
    def _cluster(self) -> Cluster:
        return self.enter_context(cluster_of(self._spec))

    @cached_property
    def _folder(self) -> str:
        return self.enter_context(tempfile.TemporaryDirectory(prefix="stateferry-"))

    @cached_property
    def _changelogs(self) -> dict[str, Changelog]:
        return {each.store_partition: each for each in changelogs(self._spec, self._source)}

    @cached_property
    def _positions(self) -> dict[str, int | None]:
        return positions(self._spec, self._source)

    def _read(self, partition: str) -> KnownTimes:
        changelog, position = self._changelogs[partition], self._positions[partition]
        ends = self._cluster.ends_of(changelog.topic, changelog.number)
        end = ends.stable if position is None else min(position, ends.stable)
        start = ends.start if self._most is None else max(ends.start, end - self._most)
        made = make_times(
            TimesTask(
                home=self._folder,
                folder=partition,
                changelog=changelog,
                connection=self._cluster.connection,
                start=start,
                end=end,
                format=self._spec.source.format,
            )
        )
        run = self.enter_context(open_times(f"{self._folder}/{made.folder}"))
        assert run is not None
        return KnownTimes(run, is_whole=start == ends.start, unknown_ms=self._unknown_ms)


def lost_beginning(changelog: Changelog, ends: Ends, spec: Spec, conversion: Conversion) -> str | None:
    """A sentence on keys whose times are lost, where retention has removed the beginning of a changelog.

    A segmented store loses records of that age itself.
    """
    if not ends.start or conversion.source.is_segmented:
        return None
    is_stored = takes_times(spec, conversion)
    instead = f"{conversion.default_timestamp_ms}" if is_stored else "the newest time that is left"
    return (
        f"{changelog.topic}-{changelog.number} begins at offset {ends.start}, as the broker has removed what was "
        f"before: keys that were written then and not since get {instead} as their time"
    )


def take_times(context: Context, executor: Executor) -> None:
    """Make the run of each store partition that has no intact one, if times are needed.

    Raises ChangelogFailedError where a changelog cannot be read to the store's position, or a damaged run cannot be
    made again as it was; RefusedError where the position is not in the changelog.
    """
    if not are_needed(context.spec, context.conversion):
        return
    known = context.standing.times
    in_use = {receipt.store_partition for receipt in context.standing.receipts}
    tasks = list(_tasks(context, known))

    def started(task: Task) -> None:
        context.notify("times.started", task=task)

    for finished in run_all(executor, tasks, on_start=started, name=context.spec.name, stop=context.stop):
        for _, made in finished:
            assert isinstance(made, Times)
            before = known.get(made.store_partition)
            if made == before:
                continue
            if before is not None and made.digest != before.digest and made.store_partition in in_use:
                raise ChangelogFailedError(
                    f"the times of {made.store_partition} are damaged, and its changelog has other ones by now: some "
                    "chunks have the old ones",
                    hint="start over: stateferry abandon SPEC, then stateferry run SPEC",
                )
            context.notify("times.made", times=made)
            context.record(Step.TIMES, store_partition=made.store_partition, detail=made)
            context.notify("times.committed", times=made)
    context.stop.check()


def are_needed(spec: Spec, conversion: Conversion) -> bool:
    """Whether the times are needed: for the new store, or for records of which a store does not tell the time."""
    if spec.changelog is None or spec.source.rows:
        return False
    if takes_times(spec, conversion):
        return True
    written = {"none": (), "new-topic": (conversion.target,), "append": (conversion.source, conversion.target)}
    return not all(each.changelog_form.has_timestamp for each in written[way_of(spec, conversion)])


def _tasks(context: Context, known: Mapping[str, Times]) -> Iterator[TimesTask]:
    at = positions(context.spec)
    with cluster_of(context.spec) as cluster:
        for changelog in changelogs(context.spec):
            partition = changelog.store_partition
            ends = cluster.ends_of(changelog.topic, changelog.number)
            end = checked_end(changelog, at[partition], ends)
            before = known.get(partition)
            for run in (context.home / CHANGELOG / partition).glob("times-*"):
                if before is None or context.home / before.folder != run:
                    remove_sorted_runs(run)  # of an attempt that was killed, or lost
            yield TimesTask(
                home=str(context.home),
                folder=f"{CHANGELOG}/{partition}",
                changelog=changelog,
                connection=cluster.connection,
                start=ends.start,
                end=end,
                format=context.spec.source.format,
                known=before if before is not None and before.end == end else None,
            )


def checked_end(changelog: Changelog, position: int | None, ends: Ends) -> int:
    """Where the records end that a store has applied. Raises RefusedError where nothing states that."""
    if position is None and ends.end > ends.start:
        raise RefusedError(
            f"{changelog.store_partition} states no position in {changelog.topic}-{changelog.number}: its times cannot "
            "be read there",
            hint="start and stop the old application once, cleanly; is [changelog] bootstrap its cluster?",
        )
    return ends.end if position is None else min(position, ends.end)
