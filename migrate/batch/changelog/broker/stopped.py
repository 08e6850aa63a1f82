"""Whether the application has stopped everywhere, as the broker sees it: its group, its transactions, its input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

from migrate.batch.changelog.broker.records import has_records
from migrate.batch.changelog.ways import application_of, new_names
from migrate.batch.source.source import Source
from migrate.errors import BrokerError, RefusedError
from migrate.kafka.cluster import Cluster, Ends
from migrate.model.changelog.written import Changelog
from migrate.model.reports import Doubt
from migrate.model.units import plural
from migrate.spec.spec import Spec
from migrate.spec.ways import is_said_to_be_stopped

_MOST_THREADS = 32
"""The stream threads of an instance whose transactions are ended."""
_STOP = (
    "stop every instance of the application, standbys too; one that was killed stays a member until its "
    "session.timeout.ms has passed (45 s by default): wait so long, then run the same command again"
)
_EVERY_INSTANCE = "make sure that every instance has stopped: kafka-streams-groups.sh --describe --members"
_SAY_SO = (
    "check [changelog] application_id, which the group is named by; once every instance has stopped, say so in the "
    'spec: [changelog] application = "stopped"'
)


def check_group(cluster: Cluster, application: str, spec: Spec, *, only_reads: bool = False) -> str | Doubt:
    """Raises RefusedError where the application's group has members, and BrokerError where nothing tells.

    The members of a group of Kafka Streams' own protocol are found out by a commit; `only_reads`: not by this command.
    """
    try:
        return _check_group(cluster, application, only_reads=only_reads)
    except BrokerError as error:
        if not is_said_to_be_stopped(spec):
            raise
        return Doubt(f"{error.message}: that it has stopped is what [changelog] application says", _EVERY_INSTANCE)


def _check_group(cluster: Cluster, application: str, *, only_reads: bool) -> str | Doubt:
    group = cluster.group(application)
    if group.members:
        hosts = sorted({member.host.lstrip("/") for member in group.members})
        raise RefusedError(
            f"the application runs: group {application} has {plural(len(group.members), 'member')}, on "
            f"{', '.join(hosts)}",
            hint=_STOP,
        )
    if group.state not in ("DEAD", "UNKNOWN"):
        return f"group {application} has no members"
    if only_reads and cluster.committed(application, stable=False):
        return Doubt(
            f"whether group {application} has members cannot be read: run and cutover commit one of its own offsets "
            "unchanged, which is refused while it has some",
            _EVERY_INSTANCE,
        )
    has_members = None if only_reads else cluster.has_members(application)
    if has_members:
        raise RefusedError(f"the application runs: group {application} has members", hint=_STOP)
    if has_members is None:
        raise BrokerError(
            f"nothing tells whether the application runs: the broker shows no offset of a group {application}",
            hint=_SAY_SO,
        )
    return f"group {application} has no members: it takes a commit from outside"


def open_transactions(
    cluster: Cluster, every: Iterable[Changelog], ours: Mapping[str, int]
) -> list[tuple[Changelog, Ends]]:
    """The old changelogs with an open transaction of the application.

    `ours`: by store partition, the first offset of converted records in the same topic; transactions that are open
    from there on are those of a run that was killed, and the next run ends them.
    """
    found = ((each, cluster.ends_of(each.topic, each.number)) for each in every)
    return [
        (each, ends) for each, ends in found if ends.stable < min(ends.end, ours.get(each.store_partition, ends.end))
    ]


def end_transactions(
    cluster: Cluster, spec: Spec, source: Source, every: Iterable[Changelog], ours: Mapping[str, int]
) -> str:
    """End the transactions that dead instances of this host left open in these changelogs; `ours` stay.

    Raises RefusedError while the application's group has members, and where a transaction stays open.
    """
    every = tuple(every)
    if not open_transactions(cluster, every, ours):
        return "no transaction is open"
    check_group(cluster, application_of(spec), spec)
    ids = list(source.system.transactional_ids(source.path, application_of(spec), _MOST_THREADS))
    ended = 0
    for transactional_id in takewhile(lambda _: open_transactions(cluster, every, ours), ids):
        cluster.abort_transactions(transactional_id)
        ended += 1
    if left := open_transactions(cluster, every, ours):
        whose = "of an instance on another host: run the same command there, or " if ids else ""
        raise open_transaction(left[0], f"it is not of an instance on this host; {whose}wait until it ends")
    return f"ended the transactions of {plural(ended, 'stream thread')} of this host"


def open_transaction(found: tuple[Changelog, Ends], hint: str) -> RefusedError:
    """The error for one of them."""
    each, ends = found
    return RefusedError(
        f"a transaction is open in {each.topic}, partition {each.number}, from offset {ends.stable} on: what the "
        "application wrote there may still be committed",
        hint=hint,
    )


def check_repartition(cluster: Cluster, spec: Spec, every: Iterable[Changelog]) -> str:
    """Raises RefusedError where input waits in a repartition topic that the old store's name names.

    The new code gives that topic the new store's name, unless the grouping has a name of its own.
    """
    names = {old: new for old, new in new_names(spec).items() if old != new}
    found = []
    for changelog in dict.fromkeys(each.topic for each in every):
        old = next((name for name in names if changelog.endswith(f"-{name}-changelog")), None)
        topic = cluster.topic(f"{changelog.removesuffix('-changelog')}-repartition") if old is not None else None
        if old is None or topic is None:
            continue
        read_up_to = cluster.committed(application_of(spec))
        for number, ends in cluster.ends(topic.name, range(topic.partitions)).items():
            done = read_up_to.get((topic.name, number))
            start = max(ends.start, 0 if done is None else done.offset)
            if ends.end > ends.stable or has_records(cluster.connection, topic.name, number, start, ends.stable):
                raise RefusedError(
                    f"{topic.name}, partition {number}, has input that the application has not read, and with the "
                    f"store named {names[old]} it would read another topic: that input would be lost",
                    hint="start the old application, let it read that topic to its end, and stop it; or give the "
                    "grouping a name (Grouped.as) in the old application first",
                )
        found.append(topic.name)
    return f"{', '.join(found)} read to the end" if found else "no repartition topic has the name of an old store"
