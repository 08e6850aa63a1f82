"""Store partitions that no host has: their keys are in the old changelog alone."""

import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from migrate import abandon, cutover, finalize, plan, run, status, verify
from migrate.batch.status.history import report as history_of
from migrate.errors import RefusedError
from migrate.kafka.claims import Claims, change_claims, read_claims
from migrate.kafka.cluster import Cluster
from migrate.model.events import REBUILD_EVENTS
from migrate.spec.spec import Spec
from tests.batch.changelog.support import NOW, WINDOW, App
from tests.batch.switch.support import StopAt, StoppedError
from tests.broker.broker import Broker
from tests.support import KEY_VALUE, TIMESTAMPED, raises

Make = Callable[..., App]


@pytest.fixture
def make(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Make:
    """Makes an application of two tasks, and removes the directory of the second one."""

    def made(kind: str = App.kind, way: str = "new-topic") -> App:
        name = request.node.name.replace("[", "-").replace("]", "").replace("_", "-").replace(".", "-")[-40:].strip("-")
        app = App(name, tmp_path, broker, kind=kind, way=way, count=40).make()
        shutil.move(tmp_path / name / "0_1", tmp_path / "0_1")
        return app

    return made


def _spec(app: App, missing: str | None = None, **sections: Any) -> Spec:  # noqa: ANN401
    changelog = {**app.content["changelog"], **({} if missing is None else {"missing": missing})}
    return replace(app, sections={"changelog": changelog, **sections}).spec


def _claims(app: App) -> Claims:
    return read_claims(app.connection, f"stateferry-{app.name}")


def _forget_claims(app: App) -> None:
    """As the broker does after a week."""
    admin = AdminClient({"bootstrap.servers": app.broker.bootstrap})
    group = f"stateferry-{app.name}"
    admin.delete_consumer_groups([group])[group].result()


def _two_hosts(one: App, folder: Path) -> tuple[App, App]:
    other = replace(one, base=folder / "other")
    (other.base / one.name).mkdir(parents=True)
    shutil.move(folder / "0_1", other.base / one.name / "0_1")
    return one, other


@pytest.mark.parametrize("way", ["new-topic", "append"])
def test_they_are_named_and_keep_the_others_from_going_live(way: str, make: Make) -> None:
    app = make(way=way)
    spec, gone = app.spec, f"{app.topic}, partition 1, holds keys that no host of this migration has written"
    found = plan(spec)
    assert found.verdict.go
    assert found.changelogs is not None
    (held,) = found.changelogs.held
    assert (held.here, held.elsewhere, held.missing) == ((0,), (1,), (1,))
    (warning,) = [each for each in found.checks if each.name == "changelog.missing"]
    assert (warning.outcome, warning.detail) == ("warning", gone)
    assert "start the old application once" in warning.fix
    report = run(spec)
    assert report.held == (held,)
    assert not [each for each in report.warnings if "partition 1" in each]
    assert gone in report.next_step
    assert status(spec).held == (held,)
    for each in (status(spec), history_of(spec), verify(spec)):
        assert gone in each.next_step
        assert "cutover" not in each.next_step
    raised = raises(RefusedError, "", cutover, spec)
    assert gone in raised.message
    assert 'missing = "leave"' in str(raised.hint)
    assert ("rebuild" in str(raised.hint)) == (way == "new-topic")
    assert app.restored(0) == app.expected(0)
    abandon(spec)


def test_the_only_copy_is_never_deleted(make: Make) -> None:
    app = make()
    spec = _spec(app, "leave")
    assert "are left behind" not in run(spec).next_step
    (warning,) = [each for each in cutover(spec).warnings if "partition 1" in each]
    assert warning.endswith('they are left behind ([changelog] missing = "leave")')
    app.write(app.new_topic, 1, {b"new": (b"of the new version", NOW)})
    _forget_claims(app)
    for _ in range(2):
        raises(RefusedError, "the topic is their only copy", finalize, spec, delete_topic=True)
        finalize(spec)
    with Cluster(app.connection) as cluster:
        assert cluster.topic(app.topic) is not None


def test_what_another_host_has_written_is_not_missing(make: Make, tmp_path: Path) -> None:
    one, other = _two_hosts(make(), tmp_path)
    run(one.spec)
    assert plan(other.spec).changelogs.held[0].missing == ()  # type: ignore[union-attr]
    assert run(other.spec).held[0].missing == ()
    _forget_claims(one)
    for host in (one, other):
        cutover(host.spec)
    assert finalize(one.spec, delete_topic=True).removed_topics == (one.topic,)


def test_what_another_host_has_given_up_is_missing(make: Make, tmp_path: Path) -> None:
    one, other = _two_hosts(make(), tmp_path)
    for host in (one, other):
        run(host.spec)
    abandon(one.spec)
    raises(RefusedError, "partition 0, holds keys that no host", cutover, other.spec)


@pytest.mark.parametrize("kind", [TIMESTAMPED, KEY_VALUE, WINDOW])
def test_they_are_rebuilt_from_their_changelog_alone(kind: str, make: Make) -> None:
    app = make(kind)
    run(app.spec)
    spec, events = _spec(app, "rebuild"), list[str]()
    report = run(spec, on_event=lambda event: events.append(event.name))
    assert [each for each in events if each in REBUILD_EVENTS] == [*REBUILD_EVENTS]
    assert app.all_restored()
    assert report.changelogs[0].rebuilt == ("0_1/orders (40 records)",)
    assert report.held[0].missing == ()
    assert (report.totals.records_out, report.totals.dropped) == (80, 6)
    cutover(spec)
    assert not (app.base / app.name / "0_1").exists()
    assert {claim.state for claim in _claims(app).values()} == {"in-use"}
    assert finalize(spec, delete_topic=True).removed_topics == (app.topic,)


@pytest.mark.parametrize("event", REBUILD_EVENTS)
def test_a_rebuild_that_was_stopped_anywhere_is_finished_by_the_next_run(event: str, make: Make) -> None:
    app = make()
    spec = _spec(app, "rebuild")
    raises(StoppedError, "", run, spec, on_event=StopAt(event))
    raises(RefusedError, "partition 1, holds keys that no host", cutover, spec)
    run(spec)
    assert app.all_restored()
    again = list[str]()
    run(spec, on_event=lambda reached: again.append(reached.name))
    assert not {*again} & {*REBUILD_EVENTS}
    cutover(spec)


def test_what_another_host_has_claimed_is_not_rebuilt(make: Make, tmp_path: Path) -> None:
    one, other = _two_hosts(make(), tmp_path)
    raises(StoppedError, "", run, other.spec, on_event=StopAt("changelog.claimed"))
    report = run(_spec(one, "rebuild"))
    assert (report.held[0].missing, report.changelogs[0].rebuilt) == ((1,), ())
    assert one.restored(1) == {}
    run(other.spec)
    assert one.all_restored()
    assert run(_spec(one, "rebuild")).held[0].missing == ()


def test_a_host_that_has_it_and_comes_later_goes_on_from_the_rebuilt_records(make: Make, tmp_path: Path) -> None:
    one, other = _two_hosts(make(), tmp_path)
    run(_spec(one, "rebuild"))
    (changelog,) = run(other.spec).changelogs
    assert changelog.adopted == (f"0_1/orders from {socket.gethostname()}",)
    for host in (one, other):
        cutover(host.spec)


def test_records_of_nobody_are_not_mixed_with_rebuilt_ones(make: Make) -> None:
    app = make()
    run(app.spec)
    given_up = replace(_claims(app)[app.topic, 0], owner="other", state="given-up")
    change_claims(app.connection, f"stateferry-{app.name}", lambda _: {(app.topic, 1): given_up})
    app.write(app.new_topic, 1, {b"somebody's": (b"value", NOW)})
    assert run(_spec(app, "rebuild")).held[0].missing == (1,)
    assert set(app.restored(1)) == {b"somebody's"}


def test_a_changelog_that_went_on_since_is_refused(make: Make) -> None:
    app = make()
    spec = _spec(app, "rebuild")
    run(spec)
    app.write(app.topic, 1, {b"late": (b"value", NOW)})
    raised = raises(RefusedError, "partition 1, has records from offset", cutover, spec)
    assert "starts over" in str(raised.hint)


def test_what_cannot_be_rebuilt_is_refused_before_anything_is_done(make: Make) -> None:
    app = make()
    for way, function in (("append", "convert"), ("new-topic", "convert_some")):
        app = replace(app, way=way)
        conversion = {"function": f"tests.batch.changelog.support:{function}", "allow": ["key-change"]}
        found = plan(_spec(app, "rebuild", conversion=conversion)).verdict
        assert (found.exit_code, 'missing = "rebuild"' in found.sentence) == (6, True)


def test_keys_without_a_value_are_not_missed(make: Make) -> None:
    app = make()
    app.write(app.topic, 1, dict.fromkeys(app.old(1), (None, NOW)))
    assert run(app.spec).held[0].elsewhere == ()
    cutover(app.spec)


def test_expired_windows_are_not_missed(make: Make) -> None:
    app = make(kind=WINDOW)
    assert plan(app.spec).changelogs.held[0].missing == (1,)  # type: ignore[union-attr]
    settings = [ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)]
    topic = ConfigResource(ResourceType.TOPIC, app.topic, incremental_configs=settings)
    admin = AdminClient({"bootstrap.servers": app.broker.bootstrap})
    admin.incremental_alter_configs([topic])[topic].result()
    assert plan(app.spec).changelogs.held[0].elsewhere == ()  # type: ignore[union-attr]


def test_a_directory_is_not_published_without_them(make: Make) -> None:
    app = make()
    target = {"format": app.kind, "store": "orders2", "path": f"new/{app.name}"}
    with pytest.raises(RefusedError, match="partition 1, holds keys that no host"):
        run(_spec(app, target=target))
    assert not (app.base / "new" / app.name).exists()
    report = run(_spec(app, "leave", target=target))
    assert [each for each in report.warnings if "are left behind" in each]
    assert (app.base / "new" / app.name / "0_0" / "rocksdb" / "orders2").is_dir()
    with pytest.raises(RefusedError, match="the topic is their only copy"):
        finalize(_spec(app, "leave", target=target), delete_topic=True)
