"""`cutover`: all new stores take the places of the old ones, after all checks; the journal says how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from migrate.batch.changelog.application_group import (
    check_group,
    check_repartition,
    committed_offsets,
    end_transactions,
    hidden_offsets,
    open_transaction,
)
from migrate.batch.changelog.broker_access import asked_at_once, cluster_of, half_done, has_records
from migrate.batch.changelog.concerns import changelog_concerns, note_of
from migrate.batch.changelog.held_topics import check_none_missing, check_other_topics, left_behind
from migrate.batch.changelog.host_claims import fleet_of
from migrate.batch.changelog.store_changelogs import reached, rewritten_lines
from migrate.batch.changelog.topics import check_still_ours
from migrate.batch.changelog.write_topics import end_writing
from migrate.batch.context import Context
from migrate.batch.identity import check_identity, check_spec, planned_state, stable_json, store_identity, store_state
from migrate.batch.ledger.changelog_standing import ChangelogStanding
from migrate.batch.ledger.gates import Acceptance, concerns_of, require_acceptance, signed_off
from migrate.batch.plan.target_layout import new_positions
from migrate.batch.preflight.directories import check_can_be_exchanged, check_free, check_not_opened_since
from migrate.batch.source.snapshot import SnapshotSource, find_snapshot
from migrate.batch.source.source import Source, application_of, find_source
from migrate.batch.switch.checksums import check_staged
from migrate.batch.switch.locked_migration import (
    LockedMigration,
    check_in_place,
    check_not_refuted,
    is_as_it_was,
    open_migration,
    places_of,
    switch_report,
)
from migrate.batch.switch.store_locations import StoreLocations, sync_names
from migrate.errors import RefusedError, SourceChangedError, system_errors_explained
from migrate.kafka.cluster import Cluster
from migrate.model.changelogs import Changelog, Rebuilt, Topics, with_rebuilt
from migrate.model.events import Listener, ignore
from migrate.model.journal import AtCutOver, Exchange, Journal
from migrate.model.ledger_row import Step
from migrate.model.reports import Concern, InconclusiveCheck, SwitchReport
from migrate.model.store_partition import ChangelogOffsets, StorePartition, StoreState
from migrate.spec.spec import Spec
from migrate.stores.files import fsync_tree, own_like
from migrate.stores.rocksdb.layout import rocksdb_identities

_RUN = "stateferry run SPEC"
_START_OVER = "the new stores no longer match: start over (stateferry abandon SPEC, then stateferry run SPEC)"
_WAIT = (
    "wait until it ends (transaction.timeout.ms), then run the same command again; or end what dead instances of this "
    "host left open: stateferry cutover SPEC --fence"
)
_CATCH_UP = "stateferry catch-up SPEC brings them, once the application has stopped"
_ABANDON = "stateferry abandon SPEC, then stateferry run SPEC, starts over"


@system_errors_explained()
def cutover(
    spec: Spec,
    *,
    unverified: bool = False,
    accept_rejects: int | None = None,
    fence: bool = False,
    checksums: bool = True,
    on_event: Listener = ignore,
) -> SwitchReport:
    """Exchange the old stores for the verified new ones, or finish a cut-over that was killed.

    New stores with names of their own are moved in beside the old ones.

    The application must be stopped. `rollback` exchanges them again, until `finalize` removes the old ones.

    Args:
        spec: the migration, from `load_spec` or built in code.
        unverified: accept new stores that were not verified.
        accept_rejects: accept new stores that lack up to this many records, which could not be converted.
        fence: end the transactions that dead instances of the application on this host left open.
        checksums: read the tables of the new stores, and compare them with what was verified.
        on_event: called with each `Event`, before the work goes on.

    Raises:
        SpecError: the migration publishes a new directory instead ([target] path).
        RefusedError: the new stores are not complete, not verified or damaged since, or a process has a store open.
        VerificationError: a verification found the new stores wrong.
        RejectedError: the new stores lack records.
        ChangelogFailedError: the broker was lost in the middle; the same command goes on.
    """
    check_in_place(spec, "cutover")
    context = Context(spec, on_event, "switch", Acceptance(unverified, accept_rejects), fence=fence)
    with open_migration(context) as migration:
        step = context.standing.step
        if step in (Step.CUT_OVER, Step.FINALIZING, Step.FINALIZED):
            check_not_refuted(context, "the stores are cut over already")
            return switch_report(context)
        if step is Step.ROLLING_BACK:
            raise RefusedError("a rollback is half done", hint="finish it first: stateferry rollback SPEC")
        if step is Step.CUTTING_OVER:
            _resume(migration)
        else:
            _start(migration, checksums=checksums)
        return switch_report(context)


def _start(migration: LockedMigration, *, checksums: bool) -> None:
    context = migration.context
    accepted = _check_stores(context)
    with migration.locking(context.plan.store_partitions, context.standing.assembled.values()) as check_unopened:
        context.notify("cutover.started")
        journal = _journal(context, accepted)
        if journal.broker is not None:
            context.notify("cutover.asked")
        if checksums:
            check_staged(context)
        context.notify("cutover.checked")
        context.record(Step.CUTTING_OVER, detail=journal)
        context.notify("cutover.intended")
        _carry_out(migration, check_unopened)


def _resume(migration: LockedMigration) -> None:
    every = places_of(migration.context)
    with migration.locking_all(every) as check_unopened:
        for places in every:
            if not is_as_it_was(places, places.old_store, places.entry.old_state):
                raise RefusedError(
                    f"the old store of {places.entry.partition.id} was written to since the cut-over began",
                    hint="go back to the old stores (stateferry rollback SPEC), then start over (stateferry abandon "
                    "SPEC, stateferry run SPEC)",
                )
        if (spec := migration.context.spec).changelog is not None:
            with cluster_of(spec) as cluster:
                check_group(cluster, application_of(spec), spec)
        _carry_out(migration, check_unopened)


def _carry_out(migration: LockedMigration, check_unopened: Callable[[], None]) -> None:
    """Carry out the exchanges, also after a kill: each step checks whether it is done already."""
    context = migration.context
    notify, journal, every = context.notify, context.standing.journal, places_of(context)
    for places in every:
        _check_places(places, {("new", "old"), ("new", "none"), ("old", "new"), ("none", "new")})
    # a position must never be ahead of the store in that place
    entries = journal.exchanges
    migration.write_positions(migration.between(each, each.before, each.after) for each in entries)
    notify("cutover.positioned")
    for places in every:
        context.ledger.check_not_fenced()
        places.make_new_live()
        notify("cutover.exchanged", store_partition=places.entry.partition)
    sync_names(every, context.home)
    for places in every:
        places.set_old_aside()
    sync_names(every, context.home, live=False)  # nothing moved there since
    notify("cutover.old-set-aside")
    migration.write_positions((each.new_partition, each.after) for each in entries)
    if journal.broker is not None:
        with half_done("the cut-over is half done, so start no version of the application"):
            fleet_of(context.spec, journal.broker.topics).publish("in-use")
        notify("cutover.marked")
    check_unopened()
    for places in every:
        _check_places(places, {("none", "new")})
    notify("cutover.done")
    context.record(Step.CUT_OVER, detail=journal)
    notify("cutover.committed")


def _check_places(places: StoreLocations, allowed: set[tuple[str, str]]) -> None:
    if (places.at(places.staged), places.at(places.live)) not in allowed:
        raise RefusedError(
            f"{places.live} and {places.staged} hold other stores than those of the cut-over",
            hint="was one restored or created again since? stateferry rollback SPEC goes back to the old ones",
        )


def _check_stores(context: Context) -> tuple[Concern, ...]:
    """The concerns that were accepted. Raises RefusedError unless all new stores are assembled and their changelogs
    written, and what `require_acceptance` raises.
    """
    spec, standing = context.spec, context.standing
    if standing.plan is None:
        raise RefusedError(f"the migration {spec.name!r} has no plan in {context.home}", hint=_RUN)
    check_spec(spec, context.ref, standing)
    if not standing.is_assembled:
        raise RefusedError(f"the new stores of {spec.name!r} are not complete", hint=f"{_RUN} completes them")
    concerns = concerns_of(spec, standing, context.acceptance)
    require_acceptance(concerns, "nothing was cut over")
    changelogs = changelog_concerns(spec, standing, context.acceptance)
    require_acceptance(changelogs, "nothing was cut over")
    return signed_off((*concerns, *changelogs))


def _journal(context: Context, accepted: tuple[Concern, ...]) -> Journal:
    """The journal of the exchanges. Raises RefusedError where old or new stores have changed."""
    live = find_source(context.spec)
    source = _checked_source(context, live)
    check_can_be_exchanged(context.spec, live)
    if isinstance(source, SnapshotSource):
        _check_not_behind(live, source)
    exchanges = tuple(
        _exchange(context, source, each)
        for each in live.partitions
        if each.databases or context.plan.new_partition(each).databases  # otherwise there is nothing to exchange
    )
    if source is live:
        check_not_opened_since(context.spec, context.conversion, live)
    broker, doubts = _ask_broker(context, source)
    return Journal(
        source=stable_json(context.spec.source),
        changelog=note_of(context.spec, context.conversion, context.standing),
        warnings=(*context.plan.warnings, *doubts),
        accepted=accepted,
        exchanges=exchanges,
        broker=broker,
    )


def _checked_source(context: Context, live: Source) -> Source:
    planned = {partition.id: partition for partition in context.plan.store_partitions}
    if moved := ", ".join(sorted({partition.id for partition in live.partitions} ^ planned.keys())):
        raise SourceChangedError(f"tasks were added or removed since: {moved}", hint=_START_OVER)
    if context.spec.run.source == "snapshot":
        source = find_snapshot(context.spec)
        check_identity(context.plan.identity, store_identity(source))
        return source
    for partition in live.partitions:
        if moved := ", ".join(sorted({*partition.databases} ^ {*planned[partition.id].databases})):
            raise SourceChangedError(f"segments of {partition.id} were added or removed: {moved}", hint=_START_OVER)
    return live


def _exchange(context: Context, source: Source, partition: StorePartition) -> Exchange:
    """The exchange of one store partition, given as it is now."""
    live, staged = context.application / partition.path, context.standing.assembled[partition.id]
    new_partition = context.plan.new_partition(partition)
    if not new_partition.databases:
        raise SourceChangedError(
            f"{partition.id} had no segment when its snapshot was taken, and has some now", hint=_START_OVER
        )
    old_names = rocksdb_identities(live)
    if not old_names:
        raise RefusedError(
            f"{live} has no file IDENTITY, which distinguishes the old store from the new one",
            hint="let the application open the store once: RocksDB writes it; or name a [target] path",
        )
    if (taken := context.application / new_partition.path) != live:
        check_free(taken)
    if own_like(live, staged):
        fsync_tree(staged)
    before = source.system.offsets.read(context.application, partition)
    return Exchange(
        partition=partition,
        new_partition=new_partition,
        staged=staged.relative_to(context.home),
        old=Path("old", partition.id),
        old_names=tuple(sorted(old_names)),
        new_names=tuple(sorted(rocksdb_identities(staged))),
        old_state=_old_state(context, source, partition),
        new_state=_new_state(context, staged, new_partition),
        before=before,
        after=_position_of_new(context, source, context.plan.partition(partition.id), before),
    )


def _old_state(context: Context, source: Source, partition: StorePartition) -> StoreState:
    # since its snapshot the application may have made other segments
    is_same = context.plan.partition(partition.id).databases == partition.databases
    then = planned_state(context.plan, partition, context.home) if is_same else None
    state = store_state(partition.directories(context.application), then)
    if then is not None and state.content != then.content and not isinstance(source, SnapshotSource):
        raise SourceChangedError(f"{partition.id} was written to since it was converted", hint=_START_OVER)
    return state


def _new_state(context: Context, staged: Path, partition: StorePartition) -> StoreState:
    then = context.standing.states[staged]
    try:
        state = store_state(partition.below(staged), then)
    except RefusedError as error:
        what = f"the new store {staged} is damaged: {error.message}"
        raise RefusedError(what, hint=f"{_RUN} makes it again") from error
    if state.content != then.content:
        raise RefusedError(
            f"the new store {staged} was written to since it was assembled",
            hint=f"remove that directory; {_RUN} makes it again",
        )
    return state


def _position_of_new(
    context: Context, source: Source, partition: StorePartition, before: ChangelogOffsets
) -> ChangelogOffsets:
    """The new store's positions: the snapshot's, if it was made from one; in its own changelog, if one was written."""
    rewritten = rewritten_lines(source.system, context.standing.changelogs, partition.id)
    stated = source.record.positions[partition.id] if isinstance(source, SnapshotSource) else before
    return new_positions(context.spec, partition, stated, rewritten)


def _check_not_behind(live: Source, snapshot: SnapshotSource) -> None:
    """Raises SourceChangedError where a store partition has applied less of its changelog than its snapshot."""
    before = {each.id: snapshot.changelog_lines(each) for each in snapshot.partitions}
    for each in live.partitions:
        now = ChangelogOffsets(lines=live.changelog_lines(each))
        if now.is_behind(ChangelogOffsets(lines=before[each.id])):
            raise SourceChangedError(
                f"{each.id} is at an earlier changelog position than its snapshot: the changelog was created again, or "
                "the store was reset",
                hint=_START_OVER,
            )


def _ask_broker(context: Context, source: Source) -> tuple[AtCutOver | None, tuple[str, ...]]:
    """What the broker says at a cut-over, None where nothing was written there; and warnings.

    Transactions that dead instances of this host left open are ended, if that was asked for. Raises RefusedError where
    the application is at work, or a changelog is not as the stores need it.
    """
    spec, standing = context.spec, context.standing.changelogs
    if spec.changelog is None:
        return None, ()
    with cluster_of(spec) as cluster:
        group = check_group(cluster, application_of(spec), spec)
        warnings = _doubts(group)
        if (topics := standing.topics) is None:
            return None, warnings
        if context.fence:
            end_transactions(cluster, spec, source, topics.changelogs, ours={})
        end_writing(cluster, context.home)
        at = reached(spec, context.standing, source)
        _check_changelogs(cluster, standing, topics, at)
        check_repartition(cluster, spec, topics.changelogs)
        if missing := check_none_missing(cluster, spec, topics):
            warnings += (left_behind(missing),)
        warnings += _doubts(check_other_topics(cluster, spec, context.conversion))
        offsets = committed_offsets(cluster, application_of(spec))
        if not offsets and not isinstance(group, InconclusiveCheck):
            warnings += _doubts(hidden_offsets(application_of(spec)))
        return AtCutOver(topics=topics, offsets=offsets, missing=missing), warnings


def _doubts(found: str | InconclusiveCheck) -> tuple[str, ...]:
    return (f"{found.detail}: {found.fix}",) if isinstance(found, InconclusiveCheck) else ()


def _check_changelogs(
    cluster: Cluster, standing: ChangelogStanding, topics: Topics, at: Mapping[str, int | None]
) -> None:
    """Raises RefusedError where an old changelog went on, or a new one is not as it was written."""
    last = standing.last_offsets

    def check(each: Changelog) -> None:
        _check_old(cluster, topics, each, at[each.store_partition] or 0, _CATCH_UP)
        _check_new(cluster, topics, each, last[each.store_partition])

    def check_rebuilt(each: Rebuilt) -> None:
        if each.produced is not None:
            mine = with_rebuilt(topics, (each.changelog,))
            _check_old(cluster, mine, each.changelog, each.tail.end, _ABANDON)
            _check_new(cluster, mine, each.changelog, each.produced.last_offset)

    asked_at_once(check, topics.changelogs)  # the application waits for it
    asked_at_once(check_rebuilt, standing.rebuilt.values())


def _check_old(cluster: Cluster, topics: Topics, changelog: Changelog, reached: int, hint: str) -> None:
    check_still_ours(cluster, topics, changelog.topic)
    topic, number = changelog.topic, changelog.number
    ends = cluster.ends_of(topic, number)
    if ends.stable < ends.end:
        raise open_transaction((changelog, ends), _WAIT)
    end = topics.starts[changelog.store_partition] if topics.way == "append" else ends.stable
    if has_records(cluster.connection, topic, number, max(reached, ends.start), end):
        raise RefusedError(
            f"the changelog {topic}, partition {number}, has records from offset {reached} on, which the new store "
            "lacks: the application went on",
            hint=hint,
        )


def _check_new(cluster: Cluster, topics: Topics, changelog: Changelog, last: int | None) -> None:
    check_still_ours(cluster, topics, changelog.new_topic)
    topic, number = changelog.new_topic, changelog.number
    ends = cluster.ends_of(topic, number)
    after = topics.starts[changelog.store_partition] if last is None else last + 1
    if after > ends.end:
        raise RefusedError(
            f"{topic}, partition {number}, ends at offset {ends.end}, and {last} was confirmed: the broker has lost "
            "records",
            hint="stateferry abandon SPEC, then stateferry run SPEC, writes them again",
        )
    if ends.stable < ends.end or has_records(cluster.connection, topic, number, max(after, ends.start), ends.stable):
        raise RefusedError(
            f"{topic}, partition {number}, has records after offset {after - 1}, which this migration did not write",
            hint="has an application of the new version been started? stateferry abandon SPEC, then stateferry run "
            "SPEC, starts over",
        )
