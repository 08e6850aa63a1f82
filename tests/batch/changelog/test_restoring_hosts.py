"""Two hosts that make the old store of one application from its changelog: in one folder, and each in its own."""

import fcntl
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from migrate import FencedError, RefusedError, abandon, restore, run
from migrate.model.events import Event
from migrate.stores.files import fsync_tree
from tests.batch.changelog.lost import Lost, make_lost
from tests.batch.switch.support import StopAt, StoppedError
from tests.broker.broker import Broker
from tests.support import raises

Make = Callable[..., Lost]


@pytest.fixture
def make(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Make:
    return partial(make_lost, request.node.name, tmp_path, broker)


@pytest.mark.parametrize("other", [restore, abandon], ids=["restore", "abandon"])
@pytest.mark.parametrize("event", ["restore.pinned", "restore.making", "restore.made", "restore.committed"])
def test_a_host_takes_over_from_another_one(
    event: str, other: Callable[..., object], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their folder is the same, and no lock reaches from one to the other."""
    monkeypatch.setattr(fcntl, "flock", lambda _file, _how: None)
    lost = make()
    spec, was = lost.spec(), lost.entries(lost.there)
    taken: list[str] = []

    def take_over(sent: Event) -> None:
        if sent.name == event and not taken:
            taken.append(event)
            other(spec)

    def make_durable(folder: Path) -> None:
        take_over(Event("restore.making"))
        fsync_tree(folder)

    monkeypatch.setattr("migrate.batch.chunk.restore_store.fsync_tree", make_durable)
    raises(
        FencedError,
        "another (command|run) of this migration is at work in .*, on another host",
        restore,
        spec,
        on_event=take_over,
    )
    assert taken
    restore(spec)
    assert lost.entries(spec.source_path) == was
    run(spec)
    assert spec.target_path is not None
    assert lost.entries(spec.target_path) == was


def test_the_second_host_takes_what_the_first_one_has_written(make: Make, tmp_path: Path) -> None:
    """Both have all store partitions then, but only one may write the new changelog."""
    one = make()
    (tmp_path / "elsewhere").mkdir()
    other = replace(one, app=replace(one.app, base=tmp_path / "elsewhere"))
    specs = [each.spec(target={"store": "orders2"}) for each in (one, other)]
    for spec in specs:
        restore(spec)
    raises(StoppedError, "", run, specs[0], on_event=StopAt("changelog.claimed"))
    error = raises(RefusedError, "", run, specs[1])
    assert f"its changelog is written on {socket.gethostname()}, and is not complete yet" in error.message
    assert run(specs[0]).changelogs[0].verified
    report = run(specs[1])
    (changelog,) = report.changelogs
    assert (changelog.records, changelog.verified, len(changelog.adopted)) == (0, True, 2)
    for spec in specs:
        assert spec.target_path is not None
        assert one.entries(spec.target_path, "orders2") == one.entries(one.there)
