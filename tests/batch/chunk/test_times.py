"""The times of keys: looked up in a sorted run, and written into records by both paths of a conversion."""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from formats import FORMATS, Conversion, EntryError, conversion_problem
from migrate.engine.columns import pack_times, read_times
from migrate.engine.key_times import TimesColumn, open_times, pack_block
from migrate.engine.portable import Converter
from migrate.engine.rejects import RejectsByReason
from migrate.errors import ChunkFailedError
from migrate.stores.batch import Batch
from migrate.stores.files import temporary_folder
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, open_read_only
from migrate.stores.rocksdb.writing import SstWriter, TableOptions, create_database
from tests.formats.entries import INT64, entries
from tests.support import TIMESTAMPED, flip_byte

_PAIRS = [
    conversion
    for source, target in product(FORMATS, FORMATS)
    if conversion_problem(source, target) is None and (conversion := Conversion(source, target)).takes_times
]


def _name(conversion: Conversion) -> str:
    return f"{conversion.source.id} to {conversion.target.id}"


def _pack(numbers: list[int]) -> list[bytes]:
    return [*pack_times(numbers)]


@pytest.mark.parametrize("conversion", _PAIRS, ids=_name)
@settings(max_examples=25)
@given(data=st.data())
def test_both_paths_write_the_time_of_each_record(conversion: Conversion, data: st.DataObject) -> None:
    found = sorted(dict(data.draw(st.lists(entries(conversion.source), min_size=1, max_size=30))).items())
    if data.draw(st.booleans()):  # of one size, which are converted as rows of a matrix
        key, value = found[0]
        found = [(bytes([number]) + key, value) for number in range(20)]
    times = data.draw(st.lists(INT64, min_size=len(found), max_size=len(found)))
    expected = _expected(conversion, found, times)
    assert _converted(conversion, conversion.timed_program, found, times) == expected
    assert _converted(conversion, None, found, times) == expected


def _expected(
    conversion: Conversion, found: list[tuple[bytes, bytes]], times: list[int]
) -> tuple[list[bytes], list[bytes]]:
    keys, values = [], []
    for (key, value), time in zip(found, times, strict=True):
        try:
            record = conversion.source.decode(key, value)
            entry = Conversion(conversion.source, conversion.target, default_timestamp_ms=time).convert(key, value)
        except EntryError:
            continue
        assert record.timestamp_ms is None
        assert entry is not None
        assert conversion.target.decode(*entry).timestamp_ms == time
        keys.append(entry[0])
        values.append(entry[1])
    return keys, values


def _converted(
    conversion: Conversion, program: object, found: list[tuple[bytes, bytes]], times: list[int]
) -> tuple[list[bytes], list[bytes]]:
    keys, values = [key for key, _ in found], [value for _, value in found]
    sizes = {(len(key), len(value)) for key, value in found}
    batch = Batch(keys, values, sizes.pop() if len(sizes) == 1 else None)
    convert = Converter(conversion, program, RejectsByReason(), "f", times=lambda _: _pack(times))  # type: ignore[arg-type]
    converted = convert(batch)
    return converted.keys, converted.values


def test_every_conversion_that_takes_times_and_is_compiled_is_compiled_with_them() -> None:
    compiled = {conversion for conversion in _PAIRS if conversion.program is not None}
    assert {conversion for conversion in _PAIRS if conversion.timed_program is not None} == compiled
    assert TIMESTAMPED in {conversion.target.id for conversion in compiled}


def _run(folder: Path, times: dict[bytes, int]) -> Path:
    files = []
    if times:
        files.append(folder / "times.sst")
        writer = SstWriter(files[0], TableOptions())
        keys = sorted(times)
        for at in range(0, len(keys), 100):
            part = keys[at : at + 100]
            writer.write(Batch([part[-1]], [pack_block(part, _pack([times[key] for key in part]))]))
        writer.finish()
    create_database(folder / "run", {}, {DEFAULT_FAMILY: files}, {})
    return folder / "run"


_KEYS = st.lists(st.integers(0, 5000).map(b"%04d".__mod__), unique=True, max_size=40)
_MANY = {b"%04d" % number for number in range(0, 5000, 2)}


@settings(max_examples=50)
@example(keys=[b"0001", b"0004"], run="many", sizes=[2])  # as many entries as keys, but others
@given(_KEYS, st.sampled_from(["few", "many", "same"]), st.lists(st.integers(1, 7), min_size=1))
def test_each_key_gets_its_own_time_and_others_the_default(keys: list[bytes], run: str, sizes: list[int]) -> None:
    known = {"few": set(keys[::2]), "many": _MANY, "same": set(keys)}[run]
    times = {key: 7 * int(key) for key in known}
    with temporary_folder() as name:
        with open_read_only(_run(Path(name), times)) as opened:
            column = TimesColumn(opened, -5)
            found: list[int] = []
            wanted = sorted(keys)
            while len(found) < len(wanted):
                size = sizes[len(found) % len(sizes)]
                found += read_times(b"".join(column(wanted[len(found) : len(found) + size])))
        assert found == [times.get(key, -5) for key in wanted]


def test_a_run_that_is_not_there_or_damaged_is_named(tmp_path: Path) -> None:
    run = _run(tmp_path, {b"%05d" % number: number for number in range(5000)})
    table = next(run.glob("*.sst"))
    flip_byte(table, table.stat().st_size // 3, 1)
    with pytest.raises(ChunkFailedError, match="times of keys"), open_times(str(run)) as opened:
        assert opened is not None
        TimesColumn(opened, -1)([b"00000", b"99999"])
    table.unlink()
    with pytest.raises(ChunkFailedError, match="times of keys"), open_times(str(run)):
        raise AssertionError
