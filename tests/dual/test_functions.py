"""Whatever the caller's own functions raise: it costs the record, not the store, and nothing that is acknowledged."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from formats import StateRecord
from migrate import ConversionError
from tests.dual.pairings import LOUD, PREFIXED, UPGRADE, Ground, without_prefix
from tests.support import UNKNOWN_TIMESTAMP, raises

BAD = b"Pb"


class OwnError(BaseException):
    """Not an Exception."""


class SpeechlessError(Exception):
    """Nobody can show it."""

    def __str__(self) -> NoReturn:
        raise RuntimeError("no words")


ERRORS = [
    GeneratorExit(),
    asyncio.CancelledError(),
    MemoryError(),
    OwnError(),
    SpeechlessError(),
    SystemExit(1),
    ValueError("a lone surrogate: \ud800"),
]
two = pytest.mark.parametrize("two", [False, True], ids=["one-database", "two-databases"])
errors = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


@two
@errors
def test_an_old_key_function_that_raises_is_a_record_that_cannot_be_converted(
    tmp_path: Path, two: bool, error: BaseException
) -> None:
    def old_key(key: bytes) -> bytes:
        if key == BAD:
            raise error
        return without_prefix(key)

    ground = Ground(tmp_path, PREFIXED, two)
    ground.make({b"a": b"1", b"b": b"2", b"c": b"3"})
    with ground.open(old_key=old_key, on_reject="quarantine", migrate_on_read=False) as store:
        for call in (store.get, store.delete):
            raises(ConversionError, f"old_key raised {type(error).__name__}", call, BAD)
        with pytest.raises(ConversionError, match=f"old_key raised {type(error).__name__}"):
            list(store.all())
        store.converge(None, None)
        assert [(key, reason) for key, reason in store.rejects()] == [(b"b", f"old_key raised {type(error).__name__}")]
    with ground.open() as store:
        store.converge(None, None)
        assert dict(store.all()) == {b"Pa": b"1", b"Pb": b"2", b"Pc": b"3"}


@two
@errors
def test_what_a_hook_raises_reaches_the_caller_and_its_record_stays_old(
    tmp_path: Path, two: bool, error: BaseException
) -> None:
    def hook(key: bytes, _old: bytes, _new: bytes) -> None:
        if key == b"b":
            raise error

    ground = Ground(tmp_path, UPGRADE, two)
    ground.make({b"a": b"1", b"b": b"2", b"c": b"3"})
    with ground.open(on_migrated=hook) as store:
        raises(type(error), "", store.get, b"b")
        raises(type(error), "", store.converge, None, None)
        expected = {key: UNKNOWN_TIMESTAMP + value for key, value in {b"a": b"1", b"b": b"2", b"c": b"3"}.items()}
        assert dict(store.all()) == expected
        assert ground.raw_old().keys() >= {b"b"}


@two
@pytest.mark.parametrize("error", [*ERRORS, None], ids=lambda error: type(error).__name__)
def test_a_convert_that_raises_or_gives_in_vain_costs_the_record_alone(
    tmp_path: Path, two: bool, error: BaseException | None
) -> None:
    def convert(record: StateRecord) -> StateRecord:
        if record.key != b"b":
            return record
        if error is not None:
            raise error
        return replace(record, timestamp_ms=5)

    ground = Ground(tmp_path, LOUD, two)
    ground.make({b"a": b"1", b"b": b"2", b"c": b"3"})
    with ground.open(convert=convert, on_reject="quarantine") as store:
        said = "" if error is not None else "a timestamp, which the new format has no room for"
        raises(ConversionError, said, store.get, b"b")
        store.converge(None, None)
        assert [key for key, _ in store.rejects()] == [b"b"]
        assert ground.raw_old() == {b"b": b"2"}
