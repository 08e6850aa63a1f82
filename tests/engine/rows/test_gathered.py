"""Records that compiled code copies into buffers: as rocksdict reads them, and as rows the same."""

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from formats import Format
from formats.registry import FORMATS
from migrate.engine.rows import spans
from migrate.engine.rows.gathered import gather
from migrate.engine.rows.row_reader import RowReader
from migrate.engine.rows.spans import Gathered
from migrate.errors import ChunkFailedError, CorruptionError
from migrate.model.key_range import KeyRange
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.c_api import open_native
from migrate.stores.rocksdb.database import open_read_only
from tests.formats.test_golden_bytes import VECTORS
from tests.stores.test_c_api import STORES
from tests.support import Tables, flip_byte, make_store, numbered

Pairs = list[tuple[bytes, bytes]]


def _pairs(batch: Gathered) -> Pairs:
    return [*zip(batch.keys, batch.values, strict=True)]


def _gathered(directory: Path, family: str = "default", keys: KeyRange | None = None, most: int = 1000) -> Pairs:
    with open_native(directory) as database:
        return [each for batch in gather(database, family, keys or KeyRange(), most, 1 << 20) for each in _pairs(batch)]


def _by_rocksdict(directory: Path, family: str = "default", keys: KeyRange | None = None) -> Pairs:
    with open_read_only(directory) as database:
        found = database.batches(family, keys)
        return [each for batch in found for each in zip(batch.keys, batch.values, strict=True)]


@pytest.mark.parametrize("store", STORES)
def test_it_reads_what_rocksdict_reads(store: str, tmp_path: Path) -> None:
    directory = STORES[store](tmp_path / "db")
    with open_read_only(directory) as database:
        families = database.families
    for family in families:
        assert _gathered(directory, family) == _by_rocksdict(directory, family)


@pytest.mark.parametrize("most_records, most_bytes", [(1, 1 << 20), (7, 1 << 20), (4096, 1), (4096, 100), (4096, 5000)])
def test_batches_hold_as_much_as_is_wanted_and_any_record(most_records: int, most_bytes: int, tmp_path: Path) -> None:
    random = Random(1)
    large = {b"l" * size: random.randbytes(10 * size) for size in (1, 900, 1 << 20, 3 << 20)}
    records = dict(sorted((numbered(100) | large).items()))
    with open_native(make_store(tmp_path / "db", records)) as database:
        batches = [*map(_pairs, gather(database, "default", KeyRange(), most_records, most_bytes))]
    assert [each for batch in batches for each in batch] == [*records.items()]
    for batch in batches:
        sizes = [len(key) + len(value) for key, value in batch]
        assert len(batch) <= most_records
        assert sum(sizes[:-1]) < most_bytes


def test_a_record_larger_than_a_column_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_MOST", 100)
    directory = make_store(tmp_path / "db", {b"a": bytes(100), b"b": bytes(101)})
    with open_native(directory) as database, pytest.raises(ChunkFailedError, match="2 GiB"):
        [*gather(database, "default", KeyRange(), 1, 10)]


@pytest.mark.parametrize(
    "start, end", [(b"key-00000100", b"key-00000200"), (b"x", None), (None, b"key-00000003"), (b"b", b"a")]
)
def test_a_range_is_read_alone(start: bytes | None, end: bytes | None, tmp_path: Path) -> None:
    directory, keys = make_store(tmp_path / "db", numbered(3000)), KeyRange(start=start, end=end)
    assert _gathered(directory, keys=keys, most=64) == _by_rocksdict(directory, keys=keys)


def _error(read: object, *arguments: object) -> tuple[Pairs, str]:
    try:
        return read(*arguments), ""  # type: ignore[operator]
    except CorruptionError as error:
        assert error.hint
        return [], error.message


def test_a_damaged_table_is_the_same_error_and_never_fewer_records(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "db", numbered(2000, value_size=50), tables=Tables("none"))
    (table,) = directory.glob("*.sst")
    whole = table.read_bytes()
    outcomes = []
    for at in range(1000, len(whole) * 4 // 5, len(whole) // 12):
        flip_byte(table, at)
        outcomes.append(_error(_gathered, directory))
        assert outcomes[-1] == _error(_by_rocksdict, directory)
        table.write_bytes(whole)
    assert all(said for _, said in outcomes)


def _entries(known: Format) -> Batch:
    vectors = json.loads((VECTORS / f"{known.id}.json").read_text(encoding="utf-8"))["vectors"]
    stored = {bytes.fromhex(each["stored"]["key"]): bytes.fromhex(each["stored"]["value"]) for each in vectors}
    found = dict(sorted((stored | {b"": b"", b"~": b"x", b"~" * 20: b"\xff" * 9}).items()))
    return Batch([*found], [*found.values()])


TAKEN = [known for known in FORMATS if known.kind != "versioned" and not known.metadata_keys]


@pytest.mark.parametrize("known", TAKEN, ids=lambda known: known.id)
def test_rows_are_the_same(known: Format, tmp_path: Path) -> None:
    batch = _entries(known)
    reader = RowReader(known, permissive=True)
    directory = make_store(tmp_path / "db", dict(zip(batch.keys, batch.values, strict=True)))
    wanted = reader.rows(batch, "0_1", 1)
    with open_native(directory) as database:
        for most in (1000, 2):
            found = [reader.rows(each, "0_1", 1) for each in gather(database, "default", KeyRange(), most, 1 << 20)]
            rows = pa.Table.from_batches(found)
            rows.validate(full=True)
            assert rows.equals(pa.Table.from_batches([wanted]))
