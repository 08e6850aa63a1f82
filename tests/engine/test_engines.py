"""The contract of an engine: each one does to the records of every pair of formats what the reference path does."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import FORMATS, Conversion, EntryError, Format
from formats.conversion import conversion_problem
from migrate.engine.bail_out import BailOutError
from migrate.engine.chunk_source import Inputs
from migrate.engine.engine import Engine, FamilyWork, Hooks, NewFamily, Passed, objection, rewrite, taking
from migrate.engine.engines import ENGINES
from migrate.engine.left_out import LeftOut
from migrate.engine.portable import Portable
from migrate.engine.rejects import RejectsByReason
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.stores.rocksdb.writing import TableOptions, create_database
from tests.formats.entries import Entry, entries
from tests.support import digest_by_hand, make_store, read_family

PAIRS = [pair for pair in product(FORMATS, FORMATS) if conversion_problem(*pair) is None]
MALFORMED = st.tuples(st.binary(max_size=12), st.binary(max_size=2))


def _work(folder: Path, conversion: Conversion) -> FamilyWork:
    return FamilyWork(Inputs((str(folder),)), FamilyMapping(source="default", target="default"), KeyRange(), conversion)


def _hooks() -> Hooks:
    return Hooks(lambda: None, RejectsByReason(), LeftOut())


def _expected(conversion: Conversion, records: dict[bytes, bytes]) -> tuple[list[Entry], RejectsByReason]:
    """The new records and the rejects, by the reference path."""
    new, rejects = [], RejectsByReason()
    for key in sorted(records):
        try:
            if (converted := conversion.convert(key, records[key])) is not None:
                new.append(converted)
        except EntryError as error:
            rejects.add("default", key, records[key], str(error), error.place)
    return new, rejects


def _ascend(records: list[Entry]) -> bool:
    return all(one[0] < other[0] for one, other in pairwise(records))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda each: each.name)
@settings(max_examples=150)
@given(data=st.data(), pair=st.sampled_from(PAIRS))
def test_every_engine_does_what_the_reference_path_does(
    engine: Engine, data: st.DataObject, pair: tuple[Format, Format]
) -> None:
    conversion = Conversion(*pair, default_timestamp_ms=7)
    records = dict(data.draw(st.lists(st.one_of(entries(conversion.source), MALFORMED), max_size=6)))
    expected, rejects = _expected(conversion, records)
    with TemporaryDirectory() as folder:
        old, file, new = Path(folder, "old"), Path(folder, "new.sst"), Path(folder, "new")
        work, hooks = _work(make_store(old, records), conversion), _hooks()
        if engine.declines(work, hooks) or not _ascend(expected):
            return
        passed = engine.rewrite(work, hooks, file, TableOptions())
        create_database(new, {}, {"default": [file] if expected else []}, {})
        assert [*read_family(new).items()] == expected
        assert passed.engine == engine.name
        assert (passed.scanned.records, passed.written.records) == (len(records), len(expected))
        assert passed.scanned.digest == digest_by_hand(sorted(records.items()))
        assert passed.written.digest == digest_by_hand(expected)
        assert (passed.first_key, passed.last_key) == ((expected[0][0], expected[-1][0]) if expected else (None, None))
        assert [(each.seen, each.used) for each in passed.counts] == ([(len(records),) * 2] if records else [])
        assert hooks.rejects.reasons == rejects.reasons
        family = NewFamily(new, "default")
        again = engine.compare(work, _hooks(), family)
        assert again is not None and again.written.records == len(expected)
        assert engine.digest(family, KeyRange(), lambda: None) == passed.written
        if expected:
            other = make_store(Path(folder, "other"), dict([*expected[:-1], (expected[-1][0], b"another")]))
            assert engine.compare(work, _hooks(), NewFamily(other, "default")) is None


class _Partial(Portable):
    """Takes some work, and may give up after it has begun to write."""

    name = "partial"

    def __init__(self, declines: str, fails: Callable[[Path], None]) -> None:
        self._declines, self._fails = declines, fails

    def declines(self, work: FamilyWork, hooks: Hooks) -> str:
        return self._declines

    def rewrite(self, work: FamilyWork, hooks: Hooks, file: Path, table: TableOptions) -> Passed:
        self._fails(file)
        return super().rewrite(work, hooks, file, table)._replace(engine=self.name)


def _give_up(file: Path) -> None:
    file.write_bytes(b"half")
    raise BailOutError


@pytest.mark.parametrize(
    ("declines", "fails", "engine"),
    [("", lambda _: None, "partial"), ("it is one", lambda _: None, "portable"), ("", _give_up, "portable")],
)
def test_what_one_engine_declines_or_gives_up_the_next_one_does(
    tmp_path: Path, declines: str, fails: Callable[[Path], None], engine: str
) -> None:
    work = _work(make_store(tmp_path / "old", {b"a": b"1"}), Conversion(FORMATS[0], FORMATS[0]))
    engines = (_Partial(declines, fails), ENGINES[-1])
    passed = rewrite(engines, work, _hooks(), tmp_path / "new.sst", TableOptions())
    assert (passed.engine, passed.written.records) == (engine, 1)
    create_database(tmp_path / "new", {}, {"default": [tmp_path / "new.sst"]}, {})
    assert read_family(tmp_path / "new") == {b"a": b"1"}
    empty = replace(work, inputs=Inputs((str(make_store(tmp_path / "empty", {})),)))
    assert rewrite(engines, empty, _hooks(), tmp_path / "none.sst", TableOptions()).written.records == 0
    assert not (tmp_path / "none.sst").exists()


def test_the_last_engine_takes_everything(tmp_path: Path) -> None:
    work = _work(tmp_path, Conversion(FORMATS[0], FORMATS[0], function=lambda record: record))
    hooks = _hooks()._replace(on_record=lambda _: None)
    assert taking(ENGINES[-1:], work, hooks) is ENGINES[-1]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda each: each.name)
def test_every_engine_declines_or_does_what_is_made_of_no_old_directory(engine: Engine, tmp_path: Path) -> None:
    """A segment that only the tail of a changelog has records of."""
    work = replace(_work(tmp_path, Conversion(FORMATS[0], FORMATS[0])), inputs=Inputs(()))
    if objection(engine, work, _hooks()):
        return
    passed = engine.compare(work, _hooks(), NewFamily(make_store(tmp_path / "new", {}), "default"))
    assert passed is not None and (passed.written.records, passed.counts) == (0, ())
