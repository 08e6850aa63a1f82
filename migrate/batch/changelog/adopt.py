"""Copies of stores whose changelogs other hosts write: standbys, and what tasks have left behind when they moved.

A copy goes on from the last record of the host that has written, once that is compared with the copy's new store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from migrate.batch.changelog.assembled import AssembledStores
from migrate.batch.changelog.broker.claims import Fleet, fleet_of, place_of
from migrate.batch.changelog.broker.records import settled
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.changelog.verify import row_of
from migrate.batch.changelog.ways import last_tails, reached
from migrate.batch.changelog.write import Work
from migrate.batch.chunk.executor import Executor, collected
from migrate.batch.context import Context
from migrate.batch.ledger.table import Ledger
from migrate.errors import RefusedError
from migrate.kafka.claims import Claim
from migrate.kafka.cluster import Cluster
from migrate.model.changelog.compared import Reread
from migrate.model.changelog.written import Changelog, Part, Produced, Topics
from migrate.model.ledger_row import Row, Step
from migrate.model.units import plural

_AGAIN = "then run the same command again"
_REMOVE = (
    "or give this migration up (stateferry abandon SPEC), remove the copy, and let the application restore it from the "
    "new changelog"
)


def adopt_changelogs(
    context: Context, executor: Executor, ledger: Ledger, stores: AssembledStores, topics: Topics
) -> None:
    """Adopt what other hosts have written of the changelogs of this host's copies.

    Raises RefusedError for a copy that cannot go on from there, or not yet; all others are adopted.
    """
    contents, written = stores.contents(topics.parts), ChangelogStanding(ledger.rows)
    tails = {partition: tail.number for partition, tail in last_tails(ledger.rows).items()}
    pending = {part.store_partition for part in written.pending(contents)}
    pending |= {partition for partition, last in tails.items() if last > written.last_tail(partition)}
    copies = [each for each in topics.changelogs if each.store_partition in pending - {*topics.claimed}]
    if not copies:
        return
    fleet = fleet_of(context.spec, topics)
    claims = fleet.read()
    held = {each.store_partition: claims.get(place_of(each)) for each in copies}
    whole = {name: claim for name, claim in held.items() if claim is not None and claim.is_whole}
    found = _compared(context, executor, Work(context, fleet.connection, topics, stores), whole)
    if found:
        fleet.adopt(found)
        ledger.commit(
            *(
                row
                for name, each in found.items()
                for row in _rows(ledger, contents, tails.get(name, 0), whole[name], each)
            )
        )
    at = reached(context.spec, ledger.rows)
    left = [(each, each.store_partition) for each in copies if each.store_partition not in found]
    reasons = [_reason(fleet, each, held[partition], at[partition] or 0) for each, partition in left]
    if reasons:
        sentences = "\n".join(f"  - {sentence}" for sentence, _ in reasons)
        raise RefusedError(
            f"all is done, but for the changelogs of {plural(len(reasons), 'store partition')}:\n{sentences}",
            hint=reasons[0][1],
        )


def _compared(context: Context, executor: Executor, work: Work, whole: Mapping[str, Claim]) -> dict[str, Reread]:
    """By store partition, the comparisons of what other hosts have written that found it equal to this host's copy."""
    tasks = []
    with Cluster(work.connection) as cluster:
        for partition, claim in whole.items():
            changelog = work.topics.of(partition)
            tasks.append(work.reread(cluster, changelog, claim.start, settled(cluster, changelog)))
    found = collected(executor, tasks, Reread, name=context.spec.name, stop=context.stop)
    return {each.store_partition: each for each in found if each.ok}


def _rows(ledger: Ledger, contents: Mapping[Part, str], tail: int, claim: Claim, found: Reread) -> Iterator[Row]:
    """Receipts of the parts and tails, with the last offset of the host that has written them, and the comparison."""
    partition = found.store_partition
    parts = [(part, 0, content) for part, content in contents.items() if part.store_partition == partition]
    parts += [(Part(store_partition=partition, database=""), tail, str(tail))] if tail else []
    for part, number, content in parts:
        receipt = Produced(
            store_partition=partition,
            database=part.database,
            keys=part.keys,
            tail=number,
            content=content,
            records=0,
            tombstones=0,
            size=0,
            last_offset=claim.last,
            seconds=0.0,
            host=claim.host,
        )
        yield row_of(ledger, Step.PRODUCED, receipt)
    yield row_of(ledger, Step.REREAD, found)


def _reason(fleet: Fleet, changelog: Changelog, claim: Claim | None, at: int) -> tuple[str, str]:
    """Why this host can neither write the changelog nor adopt it, and what to do."""
    partition = changelog.store_partition
    if claim is None or not claim.holds:
        return (
            f"{partition}: no host writes its changelog; here the store is behind {changelog.topic}, or "
            f"{changelog.new_topic} has records of a claim that was given up, or has expired",
            f"stateferry run SPEC on the host whose copy is not behind, {_AGAIN}; if this is the only copy: "
            f"stateferry catch-up SPEC first",
        )
    if not claim.is_whole:
        return (
            f"{partition}: its changelog is written on {claim.host}, and is not complete yet",
            f"let the run there end (stateferry status SPEC), {_AGAIN}{fleet.lost(changelog)}",
        )
    if at > claim.reached:
        return (
            f"{partition}: {claim.host} has written its changelog from a copy that is behind this one (at offset "
            f"{claim.reached} of {changelog.topic}, and this one is at {at})",
            f"stateferry catch-up SPEC there, {_AGAIN}; or there: stateferry abandon SPEC",
        )
    differs = f"has other records than {claim.host} has written"
    if at < claim.reached:
        differs = f"is behind the one on {claim.host} (at offset {at}, not {claim.reached})"
    return (
        f"{partition}: this copy {differs}",
        f"stateferry catch-up SPEC, {_AGAIN}; {_REMOVE}",
    )
