"""Hosts that migrate parts of one application, each with its own stores, folder and ledger, at a real broker."""

import shutil
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from migrate import abandon, catch_up, cutover, rollback, run
from migrate.batch.ledger.changelog_standing import ChangelogStanding
from migrate.errors import RefusedError
from migrate.kafka.claims import Claim, Claims, change_claims, read_claims
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.model.events import Event, Listener, ignore
from migrate.model.reports import RunReport
from migrate.systems.checkpoint_file import read_checkpoint
from tests.batch.changelog.support import NOW, TASKS, App
from tests.broker.broker import Broker
from tests.shared.windowed import checkpoint
from tests.support import make_families, raises, read_ledger

HOSTS = ("here", "there")
Make = Callable[..., tuple[App, App]]


@pytest.fixture
def make(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Make:
    """Makes two hosts of an application, of which each has the given tasks; their names are those of this machine."""

    def made(*tasks: tuple[str, ...], way: str = "new-topic") -> tuple[App, App]:
        name = request.node.name.replace("[", "-").replace("]", "").replace("_", "-")[-40:].strip("-")
        (tmp_path / HOSTS[0]).mkdir()
        one = App(name, tmp_path / HOSTS[0], broker, way=way, count=40).make()
        shutil.copytree(one.base, tmp_path / HOSTS[1])
        hosts = one, replace(one, base=tmp_path / HOSTS[1])
        for host, kept in zip(hosts, tasks, strict=True):
            for task in {*TASKS} - {*kept}:
                shutil.rmtree(host.base / name / task)
        return hosts

    return made


def _migrate(host: App, on_event: Listener = ignore, **more: object) -> RunReport:
    return run(replace(host, sections={**host.sections, **more}).spec, on_event=on_event)


def _claims(host: App) -> Claims:
    return read_claims(host.connection, f"stateferry-{host.name}")


def _line(host: App, task: str) -> int:
    lines = {topic: at for topic, _, at in read_checkpoint(host.base / host.name / task / ".checkpoint")}
    return lines[host.new_topic]


def _has_new_topic(host: App) -> bool:
    with Cluster(host.connection) as cluster:
        return cluster.topic(host.new_topic) is not None


def _stop_at(name: str) -> Listener:
    def stop(event: Event) -> None:
        if event.name == name:
            raise InterruptedError(name)

    return stop


def test_hosts_with_tasks_of_their_own_share_the_topic(make: Make) -> None:
    one, other = make(("0_1",), ("0_0",))
    with ThreadPoolExecutor() as threads:
        reports = list(threads.map(_migrate, (one, other)))
    assert one.all_restored()
    assert [report.changelogs[0].records for report in reports] == [40, 40]
    assert not any(report.changelogs[0].adopted for report in reports)
    for host, task in ((one, "0_1"), (other, "0_0")):
        cutover(host.spec)
        assert _line(host, task) == one.last_offset(TASKS.index(task))
    assert {claim.state for claim in _claims(one).values()} == {"in-use"}
    raises(RefusedError, "the new stores are in use", abandon, other.spec)
    rollback(other.spec)
    assert abandon(other.spec).kept_topics == (one.new_topic,)
    assert one.restored(1) == one.expected(1)
    rollback(one.spec)
    with pytest.raises(RefusedError, match="exists already, and this migration did not make it"):
        _migrate(other)  # its claim was given up, and so was that of the other host
    assert abandon(one.spec).removed_topics == (one.new_topic,)
    assert not _has_new_topic(one)


@pytest.mark.parametrize("way", ["new-topic", "append"])
def test_a_copy_goes_on_from_what_the_other_host_has_written(way: str, make: Make) -> None:
    one, other = make(TASKS, TASKS, way=way)
    with pytest.raises(InterruptedError):
        _migrate(one, _stop_at("changelog.claimed"))
    host = socket.gethostname()
    raised = raises(RefusedError, "", _migrate, other)
    assert f"0_0/orders: its changelog is written on {host}, and is not complete yet" in raised.message
    raises(RefusedError, "is not written", cutover, other.spec)
    assert _migrate(one).changelogs[0].verified
    assert one.all_restored()
    before = [one.last_offset(number) for number in range(2)]
    (changelog,) = _migrate(other).changelogs
    assert changelog.adopted == tuple(f"{task}/orders from {host}" for task in TASKS)
    assert (changelog.records, changelog.verified) == (0, True)
    for each in (one, other):
        cutover(each.spec)
        assert [_line(each, task) for task in TASKS] == before == [each.last_offset(number) for number in range(2)]
    if way == "append":  # only who has written takes it back
        rollback(other.spec)
        assert [one.last_offset(number) for number in range(2)] == before
        rollback(one.spec)
        assert one.restored(0) == one.old(0)
    else:
        rollback(one.spec)
        assert abandon(one.spec).kept_topics == (one.new_topic,)
        rollback(other.spec)
        assert abandon(other.spec).removed_topics == (one.new_topic,)


def test_a_copy_that_is_behind_writes_nothing(make: Make) -> None:
    one, other = make(TASKS, TASKS)
    behind = dict(list(other.old(1).items())[:30])
    folder = other.base / other.name / "0_1"
    shutil.rmtree(folder / "rocksdb")
    entries = {key: at.to_bytes(8, "big") + (value or b"") for key, (value, at) in behind.items()}
    make_families(folder / "rocksdb" / "orders", {"keyValueWithTimestamp": entries})
    (folder / ".checkpoint").write_text(checkpoint(f"{other.topic} 1 29"), encoding="ascii")
    with pytest.raises(InterruptedError):
        _migrate(one, _stop_at("changelog.intended"))
    change_claims(one.connection, f"stateferry-{one.name}", lambda _: {(one.topic, 0): _another(other, one)})
    raises(RefusedError, "0_1/orders: no host writes its changelog; here the store is behind", _migrate, other)
    change_claims(
        one.connection,
        f"stateferry-{one.name}",
        lambda now: {place: replace(claim, state="given-up") for place, claim in now.items()},
    )
    _migrate(one)
    raised = raises(RefusedError, "", _migrate, other)
    sentences = raised.message.splitlines()[1:]
    assert [sentence.partition(" (")[0] for sentence in sentences] == [
        f"  - 0_1/orders: this copy is behind the one on {socket.gethostname()}"
    ]
    assert "stateferry catch-up SPEC" in str(raised.hint)
    standing = ChangelogStanding(read_ledger(other.spec.home))
    assert {each.store_partition for each in standing.produced} == {"0_0/orders"}
    assert one.all_restored()
    catch_up(other.spec)
    assert _migrate(other).changelogs[0].verified
    cutover(other.spec)
    assert _line(other, "0_1") == one.last_offset(1)


def _another(host: App, other: App) -> Claim:
    """A claim of a third host with the same spec."""
    topics = ChangelogStanding(read_ledger(other.spec.home)).opened[-1]
    return Claim(digest=topics.digest, owner="third", host="third", state="writing")


def test_hosts_need_the_same_spec(make: Make) -> None:
    one, other = make(("0_0",), TASKS)
    _migrate(one)
    with pytest.raises(RefusedError, match=r"has claimed .* and its spec or its function is another one"):
        _migrate(other, conversion={"function": "tests.batch.changelog.test_fleet:another"})
    assert one.restored(0) == one.expected(0)
    raises(RefusedError, "exists already, and this migration did not make it", _migrate, other, name="another-name")


def test_records_without_a_claim_are_left_alone(make: Make) -> None:
    one, other = make(("0_0",), TASKS)
    _migrate(one)
    one.write(one.new_topic, 1, {b"somebody's": (b"value", NOW)})
    raises(RefusedError, "0_1/orders: no host writes its changelog", _migrate, other)
    assert set(one.restored(1)) == {b"somebody's"}
    raises(RefusedError, "no host writes", _migrate, other)
    abandon(one.spec)
    assert abandon(other.spec).kept_topics == (one.new_topic,)


def another(record: object) -> object:
    """Another conversion than the other host's."""
    return record


def test_of_two_claims_at_once_one_holds(broker: Broker) -> None:
    connection = Connection(broker.bootstrap)
    with Cluster(connection) as cluster:
        cluster.create_topic("contended", partitions=1, replication=1, settings={})

    def claim(owner: str) -> str:
        def change(now: Claims) -> Claims:
            mine = Claim(digest="", owner=owner, host=owner, state="writing")
            return {} if now else {("contended", 0): mine}

        return change_claims(connection, "stateferry-contended", change)["contended", 0].owner

    with ThreadPoolExecutor() as threads:
        assert len({*threads.map(claim, "abcd")}) == 1
