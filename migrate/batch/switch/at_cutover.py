"""What a cut-over asks of the broker: who is at work, what changelogs hold, and where inputs are read on."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from formats import Conversion
from migrate.batch.changelog.broker.connect import cluster_of
from migrate.batch.changelog.broker.group import committed_offsets, hidden_offsets
from migrate.batch.changelog.broker.held import check_none_missing, left_behind
from migrate.batch.changelog.broker.other_topics import check_other_topics
from migrate.batch.changelog.broker.ownership import check_still_ours
from migrate.batch.changelog.broker.records import has_records
from migrate.batch.changelog.broker.stopped import check_group, check_repartition, end_transactions, open_transaction
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.changelog.ways import application_of, reached
from migrate.batch.changelog.writing import end_writing
from migrate.batch.source.source import Source
from migrate.batch.switch.migration import Migration
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster
from migrate.model.changelog.rebuilt import Rebuilt, with_rebuilt
from migrate.model.changelog.written import Changelog, Topics
from migrate.model.journal import AtCutOver
from migrate.model.reports import Doubt

_AT_ONCE = 8
"""Changelogs that are looked at side by side."""
_WAIT = (
    "wait until it ends (transaction.timeout.ms), then run the same command again; or end what dead instances of this "
    "host left open: stateferry cutover SPEC --fence"
)
_CATCH_UP = "stateferry catch-up SPEC brings them, once the application has stopped"
_START_OVER = "stateferry abandon SPEC, then stateferry run SPEC, starts over"


def check_nobody_is_at_work(migration: Migration) -> None:
    """Raises RefusedError while the application's group has members. Without `[changelog]` no broker is asked."""
    if migration.spec.changelog is not None:
        with cluster_of(migration.spec) as cluster:
            check_group(cluster, application_of(migration.spec), migration.spec)


def ask_broker(
    migration: Migration, source: Source, conversion: Conversion, *, fence: bool
) -> tuple[AtCutOver | None, tuple[str, ...]]:
    """What the broker says at a cut-over, None where nothing was written there; and warnings.

    `fence`: transactions that dead instances of this host left open are ended. Raises RefusedError where the
    application is at work, or a changelog is not as the stores need it.
    """
    spec, standing = migration.spec, ChangelogStanding(migration.standing.rows)
    if spec.changelog is None:
        return None, ()
    with cluster_of(spec) as cluster:
        group = check_group(cluster, application_of(spec), spec)
        warnings = _doubts(group)
        if (topics := standing.topics) is None:
            return None, warnings
        if fence:
            end_transactions(cluster, spec, source, topics.changelogs, ours={})
        end_writing(cluster, migration.home)
        at = reached(spec, migration.standing.rows, source)
        _check_changelogs(cluster, standing, topics, at)
        check_repartition(cluster, spec, topics.changelogs)
        if missing := check_none_missing(cluster, spec, topics):
            warnings += (left_behind(missing),)
        warnings += _doubts(check_other_topics(cluster, spec, conversion))
        offsets = committed_offsets(cluster, application_of(spec))
        if not offsets and not isinstance(group, Doubt):
            warnings += _doubts(hidden_offsets(application_of(spec)))
        return AtCutOver(topics=topics, offsets=offsets, missing=missing), warnings


def _doubts(found: str | Doubt) -> tuple[str, ...]:
    return (f"{found.detail}: {found.fix}",) if isinstance(found, Doubt) else ()


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
            _check_old(cluster, mine, each.changelog, each.tail.end, _START_OVER)
            _check_new(cluster, mine, each.changelog, each.produced.last_offset)

    with ThreadPoolExecutor(_AT_ONCE) as threads:  # the application waits for it
        for _ in (*threads.map(check, topics.changelogs), *threads.map(check_rebuilt, standing.rebuilt.values())):
            pass


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
