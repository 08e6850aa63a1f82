"""Read the changelogs back, and compare what a restore would give with the new stores.

Other hosts write for copies (standbys, what moved tasks left behind). A copy goes on from the last record of the host
that has written, once that is compared with the copy's new store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from migrate.batch.changelog.broker_access import cluster_of, has_records, settled
from migrate.batch.changelog.host_claims import HostClaims, fleet_of, place_of
from migrate.batch.changelog.store_changelogs import reached
from migrate.batch.changelog.write_topics import Work
from migrate.batch.chunk.executor import Executor, collected
from migrate.batch.chunk.reread_changelog import RereadTask
from migrate.batch.context import Context
from migrate.batch.ledger.changelog_standing import contents_of
from migrate.errors import RefusedError, VerificationError
from migrate.kafka.claims import Claim
from migrate.kafka.cluster import Cluster
from migrate.model.changelogs import Changelog, Produced, TopicPart, Topics
from migrate.model.comparison import Reread
from migrate.model.display import plural
from migrate.model.ledger_row import Row, Step

_AS_IT_WAS = "nothing reads the new changelog yet, and the old store is as it was"
_WRITE_AGAIN = {
    "new-topic": f"{_AS_IT_WAS}; delete the topic, and stateferry run SPEC makes and fills it again; if it ends here "
    "once more: does another process write to the topic? else keep the work_dir and report this",
    "append": "the changelog is not whole: start no application; does another process write to the topic? stateferry "
    "rollback SPEC appends the old values again",
}
_AGAIN = "then run the same command again"
_REMOVE = (
    "or give this migration up (stateferry abandon SPEC), remove the copy, and let the application restore it from the "
    "new changelog"
)


def verify_changelogs(context: Context, executor: Executor, *, again: bool = False) -> None:
    """Read back every changelog that is written or adopted, but those that an earlier run found right and that end
    where they did then.

    `again`: those, too. Raises VerificationError, ChangelogFailedError where a topic cannot be read to its end.
    """
    topics, standing = context.topics, context.standing.changelogs
    before, written = {} if again else standing.reread, {each.store_partition for each in standing.produced}
    tasks = []
    with cluster_of(context.spec) as cluster:
        work = Work(context, cluster.connection)
        for each in topics.changelogs:
            if (partition := each.store_partition) in written:
                ends, known = settled(cluster, each), before.get(partition)
                if known is None or not known.ok or known.end != ends.end:
                    tasks.append(work.reread(cluster, each, topics.starts[partition], ends))
    read_back(context, executor, tasks, "changelog.verified")


def read_back(context: Context, executor: Executor, tasks: Sequence[RereadTask], event: str) -> None:
    """Read these back, and commit what was found together. Raises VerificationError for a difference."""
    found = collected(executor, tasks, Reread, name=context.spec.name, stop=context.stop)
    if found:
        context.commit(*(row_of(context, Step.REREAD, each) for each in found))
        context.notify(event, found=found)
    check_equal(found, context.topics)


def row_of(context: Context, step: Step, found: Produced | Reread) -> Row:
    """The row about a changelog."""
    return context.ledger.row(step, store_partition=found.store_partition, detail=found)


def verify_again(context: Context, executor: Executor) -> str:
    """Compare every changelog once more; returns why not, where that says nothing. Raises as `verify_changelogs`."""
    standing, written = context.standing, context.standing.changelogs
    if written.topics is None:
        return ""
    if written.pending(contents_of(standing.receipts, written.topics.parts)):
        return "not all of it is written: stateferry run SPEC goes on"
    if standing.is_in_use and (topic := _written_to(context)) is not None:
        return f"an application has written to {topic} since it was filled, so it no longer holds the store as it was"
    verify_changelogs(context, executor, again=True)
    return ""


def _written_to(context: Context) -> str | None:
    """The topic, and partition, that somebody has written to since it was filled; None: no record is new."""
    topics, last_offsets = context.topics, context.standing.changelogs.last_offsets
    with cluster_of(context.spec) as cluster:
        for each in topics.changelogs:
            place = (each.new_topic, each.number)
            last = last_offsets[each.store_partition]
            start = topics.starts[each.store_partition] if last is None else last + 1
            ends = cluster.ends_of(*place)
            if ends.stable < ends.end or has_records(cluster.connection, *place, start, ends.stable):
                return f"{each.new_topic}, partition {each.number},"
    return None


def check_equal(found: Sequence[Reread], topics: Topics) -> None:
    """Raises VerificationError for a comparison that found a difference."""
    wrong = [each for each in found if not each.ok]
    if not wrong:
        return
    kinds = {each.kind: each for reread in reversed(wrong) for each in reread.first}
    first = "\n".join(f"  - {each}" for each in kinds.values())
    missing = plural(sum(each.missing for each in wrong), "key")
    raise VerificationError(
        f"the changelog does not hold the new store: {missing} missing, "
        f"{sum(each.differing for each in wrong)} differing, {sum(each.extra for each in wrong)} extra\n{first}",
        hint=_WRITE_AGAIN["append" if topics.way == "append" else "new-topic"],
    )


def adopt_changelogs(context: Context, executor: Executor) -> None:
    """Adopt what other hosts have written of the changelogs of this host's copies.

    Raises RefusedError for a copy that cannot go on from there, or not yet; all others are adopted.
    """
    topics, written = context.topics, context.standing.changelogs
    contents = contents_of(context.standing.receipts, topics.parts)
    tails = {partition: found[-1].number for partition, found in context.standing.tails.items()}
    pending = {part.store_partition for part in written.pending(contents)}
    pending |= {partition for partition, last in tails.items() if last > written.last_tail(partition)}
    copies = [each for each in topics.changelogs if each.store_partition in pending - {*topics.claimed}]
    if not copies:
        return
    fleet = fleet_of(context.spec, topics)
    claims = fleet.read()
    held = {each.store_partition: claims.get(place_of(each)) for each in copies}
    whole = {name: claim for name, claim in held.items() if claim is not None and claim.is_whole}
    found = _compared(context, executor, Work(context, fleet.connection), whole)
    if found:
        fleet.adopt(found)
        context.commit(
            *(
                row
                for name, each in found.items()
                for row in _rows(context, contents, tails.get(name, 0), whole[name], each)
            )
        )
    at = reached(context.spec, context.standing)
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


def _rows(context: Context, contents: Mapping[TopicPart, str], tail: int, claim: Claim, found: Reread) -> Iterator[Row]:
    """Receipts of the parts and tails, with the last offset of the host that has written them, and the comparison."""
    partition = found.store_partition
    parts = [(part, 0, content) for part, content in contents.items() if part.store_partition == partition]
    parts += [(TopicPart(store_partition=partition, database=""), tail, str(tail))] if tail else []
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
        yield row_of(context, Step.PRODUCED, receipt)
    yield row_of(context, Step.REREAD, found)


def _reason(fleet: HostClaims, changelog: Changelog, claim: Claim | None, at: int) -> tuple[str, str]:
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
