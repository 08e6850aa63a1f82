"""The start of a cut-over: everything is checked while no other process can write, and put in the journal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate.batch.changelog.concerns import changelog_concerns, note_of
from migrate.batch.changelog.lines import rewritten_lines
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.context import Context, make_context
from migrate.batch.identity import (
    check_identity,
    check_spec,
    planned_state,
    stable_json,
    store_identity,
    store_state,
)
from migrate.batch.ledger.gates import Acceptance, concerns_of, require_acceptance, signed_off
from migrate.batch.plan.target_positions import new_positions
from migrate.batch.preflight.places import check_can_be_exchanged, check_free, check_not_opened_since
from migrate.batch.source.snapshot import SnapshotSource, find_snapshot
from migrate.batch.source.source import Source, find_source
from migrate.batch.switch.at_cutover import ask_broker
from migrate.batch.switch.migration import Migration
from migrate.errors import RefusedError, SourceChangedError
from migrate.model.journal import Exchange, Journal
from migrate.model.plan import Plan
from migrate.model.reports import Concern
from migrate.model.store_partition import ChangelogOffsets, StorePartition, StoreState
from migrate.stores.files import fsync_tree, own_like
from migrate.stores.rocksdb.layout import rocksdb_identities

_RUN = "stateferry run SPEC"
_START_OVER = "the new stores no longer match: start over (stateferry abandon SPEC, then stateferry run SPEC)"


@dataclass(frozen=True, slots=True)
class VerifiedStores:
    """The verified new store partitions of a migration, ready to go live."""

    plan: Plan
    context: Context
    staged: dict[str, Path]
    """Where each was assembled, by store partition."""
    accepted: tuple[Concern, ...]
    """The concerns that were accepted."""


def verified_stores(migration: Migration, acceptance: Acceptance) -> VerifiedStores:
    """The new stores. Raises RefusedError unless all are assembled and their changelogs written, and what
    `require_acceptance` raises.
    """
    spec, standing = migration.spec, migration.standing
    plan = standing.plan
    if plan is None:
        raise RefusedError(f"the migration {spec.name!r} has no plan in {migration.home}", hint=_RUN)
    context = make_context(spec, migration.listener)
    check_spec(spec, context.ref, standing)
    if not standing.is_assembled:
        raise RefusedError(f"the new stores of {spec.name!r} are not complete", hint=f"{_RUN} completes them")
    concerns = concerns_of(spec, standing, standing.totals, acceptance)
    require_acceptance(concerns, "nothing was cut over")
    accepted = signed_off(concerns)
    changelogs = changelog_concerns(spec, standing, acceptance)
    require_acceptance(changelogs, "nothing was cut over")
    accepted += signed_off(changelogs)
    return VerifiedStores(plan, context, standing.assembled, accepted)


def start_journal(migration: Migration, stores: VerifiedStores, *, fence: bool) -> Journal:
    """The journal of the exchanges. Raises RefusedError where old or new stores have changed."""
    live = find_source(migration.spec)
    source = _checked_source(migration, stores, live)
    check_can_be_exchanged(migration.spec, live)
    exchanges = tuple(
        _exchange(migration, stores, source, each)
        for each in live.partitions
        if each.databases or stores.plan.new_partition(each).databases  # otherwise there is nothing to exchange
    )
    if source is live:
        check_not_opened_since(migration.spec, stores.context.conversion, live)
    broker, doubts = ask_broker(migration, source, stores.context.conversion, fence=fence)
    return Journal(
        source=stable_json(migration.spec.source),
        changelog=note_of(migration.spec, stores.context.conversion, migration.standing),
        warnings=(*stores.plan.warnings, *doubts),
        accepted=stores.accepted,
        exchanges=exchanges,
        broker=broker,
    )


def _checked_source(migration: Migration, stores: VerifiedStores, live: Source) -> Source:
    planned = {partition.id: partition for partition in stores.plan.store_partitions}
    if moved := ", ".join(sorted({partition.id for partition in live.partitions} ^ planned.keys())):
        raise SourceChangedError(f"tasks were added or removed since: {moved}", hint=_START_OVER)
    if migration.spec.run.source == "snapshot":
        source = find_snapshot(migration.spec)
        check_identity(stores.plan.identity, store_identity(source))
        return source
    for partition in live.partitions:
        if moved := ", ".join(sorted({*partition.databases} ^ {*planned[partition.id].databases})):
            raise SourceChangedError(f"segments of {partition.id} were added or removed: {moved}", hint=_START_OVER)
    return live


def _exchange(migration: Migration, stores: VerifiedStores, source: Source, partition: StorePartition) -> Exchange:
    """The exchange of one store partition, given as it is now."""
    live, staged = migration.application / partition.path, stores.staged[partition.id]
    new_partition = stores.plan.new_partition(partition)
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
    if (taken := migration.application / new_partition.path) != live:
        check_free(taken)
    if own_like(live, staged):
        fsync_tree(staged)
    before = source.system.positions(migration.application, partition)
    return Exchange(
        partition=partition,
        new_partition=new_partition,
        staged=staged.relative_to(migration.home),
        old=Path("old", partition.id),
        old_names=tuple(sorted(old_names)),
        new_names=tuple(sorted(rocksdb_identities(staged))),
        old_state=_old_state(migration, stores.plan, source, partition),
        new_state=_new_state(migration, staged, new_partition),
        before=before,
        after=_position_of_new(migration, source, stores.plan.partition(partition.id), before),
    )


def _old_state(migration: Migration, plan: Plan, source: Source, partition: StorePartition) -> StoreState:
    # since its snapshot the application may have made other segments
    is_same = plan.partition(partition.id).databases == partition.databases
    then = planned_state(plan, partition, migration.home) if is_same else None
    state = store_state(partition.directories(migration.application), then)
    if then is not None and state.content != then.content and not isinstance(source, SnapshotSource):
        raise SourceChangedError(f"{partition.id} was written to since it was converted", hint=_START_OVER)
    return state


def _new_state(migration: Migration, staged: Path, partition: StorePartition) -> StoreState:
    then = migration.standing.states[staged]
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
    migration: Migration, source: Source, partition: StorePartition, before: ChangelogOffsets
) -> ChangelogOffsets:
    """The new store's positions: the snapshot's, if it was made from one; in its own changelog, if one was written.

    Raises SourceChangedError where the application is behind the snapshot.
    """
    written = ChangelogStanding(migration.standing.rows)
    rewritten = rewritten_lines(migration.system, written, partition.id)
    if not isinstance(source, SnapshotSource):
        return new_positions(migration.spec, partition, before, rewritten)
    after = source.record.positions[partition.id]
    if before.is_behind(after):
        raise SourceChangedError(
            f"{partition.id} is at an earlier changelog position than its snapshot: the changelog was created again, "
            "or the store was reset",
            hint=_START_OVER,
        )
    return new_positions(migration.spec, partition, after, rewritten)
