"""Values that expire, in Quix Streams: they keep their time when they move."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from migrate.processors.quix import Renamed
from tests.processors.quix_host import STREAM, Context, adapter, converge, deletes, put, stored


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = Context(tmp_path)
    yield made
    made.close()


HOUR = timedelta(hours=1)
MS = 3_600_000


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_value_keeps_its_expiry_when_it_moves(as_bytes: bool, context: Context) -> None:
    write = "set_bytes" if as_bytes else "set"
    for key, ttl in ((b"soon", HOUR), (b"late", 5 * HOUR), (b"never", None)):
        getattr(context.state(key, timestamp=1000 * MS), write)("total", b"1" if as_bytes else 1, ttl)
    context.commit()
    convert: Callable[[Any], Any] = (lambda old: old + b"2") if as_bytes else lambda old: old * 10 + 2
    dual = adapter(context, {"totals": Renamed("total", convert, as_bytes)})
    converge(context)
    assert dual.is_converged
    stamps = {key: int.from_bytes(value[:8], "big") for key, value in stored(context).items()}
    never = 2**64 - 1
    assert stamps == {b'soon|"totals"': 1001 * MS, b'late|"totals"': 1005 * MS, b'never|"totals"': never}
    assert {value[8:] for value in stored(context).values()} == {b"12"}
    for hour, left in ((1000, {b"soon", b"late", b"never"}), (1002, {b"late", b"never"}), (1006, {b"never"})):
        read = "get_bytes" if as_bytes else "get"
        alive = (key for key in (b"never", b"soon", b"late"))
        seen = {key for key in alive if getattr(context.state(key, timestamp=hour * MS), read)("totals") is not None}
        assert seen == left


def test_an_expired_value_is_not_seen_and_not_moved(context: Context) -> None:
    context.state(b"old", timestamp=1000 * MS).set("total", 1, HOUR)
    context.state(b"now", timestamp=1000 * MS).set("total", 2, 9 * HOUR)
    context.commit()
    dual = adapter(context)
    read = dual(lambda _, state: state.get("totals"))
    assert context.call(read, b"now", timestamp=1003 * MS) == {"sum": 2}
    assert context.call(read, b"old", timestamp=1003 * MS) is None
    context.turn()
    assert deletes(context) == {b'old|"total"', b'now|"total"'}  # Quix does it too, but only beside other changes
    context.commit()
    converge(context)
    assert dual.is_converged
    assert list(stored(context)) == [b'now|"totals"']


def test_a_store_that_is_half_stamped_loses_nothing(context: Context) -> None:
    """Values without a stamp among others never expire, as Quix has it."""
    put(context, {b"plain": 123})
    partition = context.manager.get_store(STREAM).partitions[0]
    partition._db[b'raw|"total"'] = b"1234567890"  # type: ignore[attr-defined]
    context.state(b"stamped", timestamp=1000 * MS).set("total", 1, HOUR)
    context.commit()
    partition._db[b'raw|"total"'] = b"1234567890"  # type: ignore[attr-defined] # after Quix stamped the others
    dual = adapter(context)
    converge(context)
    assert dual.is_converged
    found = {key: (int.from_bytes(value[:8], "big"), value[8:]) for key, value in stored(context).items()}
    assert found[b'stamped|"totals"'] == (1001 * MS, b'{"sum":1}')
    assert found[b'raw|"totals"'] == (2**64 - 1, b'{"sum":1234567890}')
    assert found[b'plain|"totals"'] == (
        1001 * MS,
        b'{"sum":123}',
    )  # by Quix: the time to live of the first that has one


def test_stamps_that_quix_adopted_for_the_time_being_are_not_settled(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """Quix 3.24 did not mark them in its changelog: a copy is kept until a `ttl` of the application confirms them."""
    later = int(time.time() * 1000) + MS
    partition = context.manager.get_store(STREAM).partitions[0]
    for number in range(20):
        value = later.to_bytes(8, "big") + b"%d" % number
        partition.recover_from_changelog_message(b'%d|"total"' % number, value, "default", number)
    partition.complete_recovery()
    before = stored(context)
    dual = adapter(context)
    converge(context)
    assert [dual.is_converged] == [False]
    assert "old values move once the application has written one with a `ttl`" in caplog.text
    assert stored(context) == before
    assert context.call(dual(lambda _, state: state.get("totals")), b"7") == {"sum": 7}
    context.state(b"other", timestamp=later - MS).set("it", 1, HOUR)
    context.commit()
    converge(context)
    assert [dual.is_converged] == [True]
    assert stored(context)[b'7|"totals"'] == later.to_bytes(8, "big") + b'{"sum":7}'
