"""Chunks of real stores, by both engines: the same records, receipts, tables and errors."""

import ctypes
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from formats import Conversion, get_format
from formats.serdes.numeric import NumberSerde
from migrate.engine.engine import FamilyWork, NewFamily
from migrate.engine.rejects import CountRejects, FailOnReject, RejectsByReason
from migrate.errors import ChunkFailedError, CorruptionError, RefusedError, RejectedError
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.c_api import library
from migrate.stores.rocksdb.c_library import unpacked_library
from migrate.stores.rocksdb.writing import KeyOrderError, TableOptions
from tests.engine.native.chunks import (
    NATIVE,
    PORTABLE,
    both,
    check_chunks,
    compare_by_both,
    create,
    digest_by_both,
    hooks_of,
    work_on,
)
from tests.support import KEY_VALUE, TIMESTAMPED, flip_byte, make_store, numbered, read_family, small_disk

PLAIN = get_format(KEY_VALUE)
UPGRADE = Conversion(PLAIN, get_format(TIMESTAMPED))
BACK = Conversion(get_format(TIMESTAMPED), PLAIN)
TURNED = Conversion(
    replace(PLAIN, key_serde=NumberSerde("int32", "little")), replace(PLAIN, key_serde=NumberSerde("int32", "big"))
)
RECORDS = numbered(5000, value_size=100)


def test_a_hundred_chunks_by_chance_are_the_same(tmp_path: Path) -> None:
    assert check_chunks(100, 0, tmp_path, most_value=1 << 22) > 10_000


@pytest.mark.timeout(7200)
def test_ten_thousand_chunks_by_chance_are_the_same(tmp_path: Path) -> None:
    assert check_chunks(10_000, 1, tmp_path, most_value=64 << 20) > 1_000_000


def _rewriting(work: FamilyWork, file: Path, rejects: Callable[[], RejectsByReason] = RejectsByReason) -> object:
    """What both engines make of it, into the same file."""
    found = both(lambda engine, hooks: engine.rewrite(work, hooks, file, TableOptions()), rejects)
    file.unlink(missing_ok=True)
    return found


def _failing(work: FamilyWork, file: Path, kind: type[Exception]) -> str:
    found = _rewriting(work, file)
    assert isinstance(found, tuple)
    assert found[0] is kind, found
    return str(found[1])


def test_a_record_of_64_mib_and_a_key_of_64_kib_are_converted(tmp_path: Path) -> None:
    records = {b"k" * 65536: b"v" * (64 << 20), b"": b"", b"next": b"small", b"z" * 65536: b""}
    work, file, old = work_on(make_store(tmp_path / "old", records), UPGRADE), tmp_path / "new.sst", bytes([255] * 8)
    NATIVE.rewrite(work, hooks_of(), file, TableOptions())
    assert read_family(create(tmp_path / "new", file)) == {key: old + value for key, value in records.items()}
    _rewriting(work, file)


def _flip(directory: Path) -> None:
    (table,) = directory.glob("*.sst")
    flip_byte(table, table.stat().st_size // 2)


def _cut(directory: Path) -> None:
    (table,) = directory.glob("*.sst")
    os.truncate(table, table.stat().st_size // 2)


def _merge(directory: Path) -> None:
    """A merge operand, as an owner with a merge operator leaves it, in the middle of the records."""
    api, plain = library(), ctypes.CDLL(str(unpacked_library()))
    options, error = api.options_create(), ctypes.c_void_p()
    plain.rocksdb_options_set_uint64add_merge_operator(ctypes.c_void_p(options))
    plain.rocksdb_open.restype = plain.rocksdb_writeoptions_create.restype = ctypes.c_void_p
    database = ctypes.c_void_p(plain.rocksdb_open(ctypes.c_void_p(options), bytes(directory), ctypes.byref(error)))
    assert error.value is None
    key, how = b"key-00002500", ctypes.c_void_p(plain.rocksdb_writeoptions_create())
    plain.rocksdb_merge(database, how, key, ctypes.c_size_t(12), bytes(8), ctypes.c_size_t(8), ctypes.byref(error))
    assert error.value is None
    plain.rocksdb_flushoptions_create.restype = ctypes.c_void_p
    plain.rocksdb_flush(database, ctypes.c_void_p(plain.rocksdb_flushoptions_create()), ctypes.byref(error))
    assert error.value is None
    plain.rocksdb_close(database)


@pytest.mark.parametrize(
    ("harm", "kind", "said"),
    [
        (_flip, CorruptionError, "block checksum mismatch"),
        (_cut, RefusedError, "new.sst|truncated|Sst file size|cannot be opened"),
        (_merge, CorruptionError, "merge"),
    ],
)
def test_what_cannot_be_read_is_the_same_error(
    harm: Callable[[Path], None], kind: type[Exception], said: str, tmp_path: Path
) -> None:
    """A scan that ends early is no end (I4)."""
    work, file = work_on(make_store(tmp_path / "old", RECORDS), UPGRADE), tmp_path / "new.sst"
    NATIVE.rewrite(work, hooks_of(), file, TableOptions())
    new = NewFamily(create(tmp_path / "new", file), "default")
    harm(tmp_path / "old")
    _assert_matches(_failing(work, file, kind), said)
    assert not file.exists()
    found = compare_by_both(work, new)
    assert isinstance(found, tuple)
    assert found[0] is kind


def _assert_matches(text: str, said: str) -> None:
    assert any(part.lower() in text.lower() for part in said.split("|")), text


@pytest.mark.parametrize(("harm", "kind"), [(_flip, CorruptionError), (_cut, RefusedError)])
def test_a_new_store_that_cannot_be_read_is_the_same_error(
    harm: Callable[[Path], None], kind: type[Exception], tmp_path: Path
) -> None:
    work, file = work_on(make_store(tmp_path / "old", RECORDS), UPGRADE), tmp_path / "new.sst"
    NATIVE.rewrite(work, hooks_of(), file, TableOptions())
    new = NewFamily(create(tmp_path / "new", file), "default")
    harm(tmp_path / "new")
    for found in (compare_by_both(work, new), digest_by_both(new, KeyRange())):
        assert isinstance(found, tuple)
        assert found[0] is kind


@contextmanager
def _files_up_to(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [1000, 100_000, 540_000])
def test_a_file_that_cannot_grow_is_the_same_error(size: int, tmp_path: Path) -> None:
    work = work_on(make_store(tmp_path / "old", RECORDS), UPGRADE)
    with _files_up_to(size):
        assert "cannot write" in _failing(work, tmp_path / "new.sst", ChunkFailedError)


def test_a_full_disk_is_the_same_error(tmp_path: Path) -> None:
    work = work_on(make_store(tmp_path / "old", RECORDS), UPGRADE)
    with small_disk(tmp_path / "disk", "300k") as disk:
        assert "No space left" in _failing(work, disk / "new.sst", ChunkFailedError)


def test_a_folder_that_is_not_there_is_the_same_error(tmp_path: Path) -> None:
    work = work_on(make_store(tmp_path / "old", RECORDS), UPGRADE)
    _failing(work, tmp_path / "none" / "new.sst", ChunkFailedError)


def test_keys_in_another_order_are_the_same_error(tmp_path: Path) -> None:
    records = {number.to_bytes(4, "little"): b"v" for number in (1, 2, 256, 512)}
    work = work_on(make_store(tmp_path / "old", records), TURNED)
    assert "follows" in _failing(work, tmp_path / "new.sst", KeyOrderError)


@pytest.mark.parametrize("place", [0, 1, 700, 2047, 4999])
def test_a_reject_that_ends_the_chunk_is_the_same_error(place: int, tmp_path: Path) -> None:
    records = {key: b"short" if number == place else bytes(9) for number, key in enumerate(RECORDS)}
    work, file = work_on(make_store(tmp_path / "old", records), BACK), tmp_path / "new.sst"
    for rejects in (lambda: FailOnReject("here"), lambda: CountRejects("here", 0)):
        found = _rewriting(work, file, rejects)
        assert isinstance(found, tuple)
        assert issubclass(found[0], RejectedError)
    found = _rewriting(work, file, lambda: CountRejects("here", 1))
    assert isinstance(found, tuple)
    assert found[0].written.records == 4999


@pytest.mark.parametrize("rejected", [range(5000), range(0, 5000, 2), range(1, 2), range(4999, 5000)])
def test_both_sides_are_digested_apart_from_the_first_reject_on(rejected: range, tmp_path: Path) -> None:
    """Until then a column that the program keeps is digested once."""
    records = {key: b"short" if number in rejected else bytes(9) for number, key in enumerate(RECORDS)}
    work = work_on(make_store(tmp_path / "old", records), BACK)
    found = _rewriting(work, tmp_path / "new.sst", lambda: CountRejects("here"))
    assert isinstance(found, tuple)
    assert (found[0].written.records, found[2]) == (5000 - len(rejected), len(rejected))


def test_a_key_that_does_not_count_is_not_taken_for_a_new_record_s(tmp_path: Path) -> None:
    work = work_on(make_store(tmp_path / "old", RECORDS), UPGRADE)
    new = make_store(tmp_path / "new", {key: bytes([255] * 8) + value for key, value in RECORDS.items()})
    for key, is_equal in ((b"key-00000007", False), (b"key-", True), (b"x", True), (b"key-00000007x", True)):
        assert (compare_by_both(work, NewFamily(new, "default", [key])) is not None) == is_equal
    for engine in (NATIVE, PORTABLE):
        none = work_on(make_store(tmp_path / engine.name, {}), UPGRADE)
        assert engine.compare(none, hooks_of(), NewFamily(new, "default", [b""])) is not None


def test_the_old_store_may_hold_metadata_of_its_owner_s_own(tmp_path: Path) -> None:
    faust = get_format("faust.table")
    (prefix,) = faust.metadata_keys
    records = {**RECORDS, prefix: b"12345678", prefix + b"more": b"12345678", b"a": b"1", prefix[:-1]: b"a record"}
    old = make_store(tmp_path / "old", records)
    for conversion, left in ((Conversion(faust, PLAIN), 2), (Conversion(faust, faust), 1)):
        found = _rewriting(work_on(old, conversion), tmp_path / "new.sst")
        assert isinstance(found, tuple)
        assert found[0].written.records == len(records) - left
