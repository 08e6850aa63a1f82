"""RocksDB through its C API: what it reads and writes is what rocksdict reads and writes."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rocksdict import Rdict

from migrate.errors import ChunkFailedError, CorruptionError, RefusedError, explain_system_error
from migrate.model.key_range import KeyRange
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.c_api import (
    NativeDatabase,
    NativeIterator,
    NativeSstWriter,
    StatusError,
    open_native,
    open_native_pooled,
)
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.openings import keeping_open
from migrate.stores.rocksdb.sst import SstFile
from migrate.stores.rocksdb.writing import _COMPRESSIONS, SstWriter, TableOptions
from tests.stores.test_unreadable import unpacked
from tests.support import (
    Tables,
    flip_byte,
    make_families,
    make_runs,
    make_store,
    numbered,
    open_store,
    small_disk,
    tree_state,
)

ALL = KeyRange()
Pairs = list[tuple[bytes, bytes]]


def _scan(database: NativeDatabase, family: str = "default", keys: KeyRange = ALL) -> Pairs:
    with database.iterator(family, keys) as iterator:
        found = []
        while iterator.valid():
            found.append((iterator.key(), iterator.value()))
            iterator.next()
        assert iterator.error() is None
        return found


def _by_rocksdict(directory: Path, family: str = "default", keys: KeyRange = ALL) -> Pairs:
    with open_read_only(directory) as database:
        return [pair for batch in database.batches(family, keys) for pair in zip(batch.keys, batch.values, strict=True)]


def _families(folder: Path) -> Path:
    return make_families(folder, {"default": numbered(10), "größer": numbered(3000, seed=1), "empty": {}})


def _blobs(folder: Path) -> Path:
    options = Tables().options()
    options.create_if_missing(True)
    options.set_enable_blob_files(True)
    options.set_min_blob_size(1000)
    owner = Rdict(str(folder), options)
    for key, value in (numbered(300, value_size=5000) | numbered(10, prefix=b"z")).items():
        owner[key] = value
    owner.flush(True)
    owner.close()
    assert [*folder.glob("*.blob")]
    return folder


def _compressed(folder: Path, compression: str, version: int | None = None) -> Path:
    records = {b"%06d" % number: b"some text" * 30 for number in range(2000)}
    return make_store(folder, records, tables=Tables(compression, format_version=version))


def _runs(folder: Path) -> Path:
    runs = [numbered(1000, seed=seed) for seed in range(40)]  # more tables than are kept open
    return make_runs(folder, [{"default": dict([*run.items()][seed : seed + 200])} for seed, run in enumerate(runs)])


def _deleted(folder: Path) -> Path:
    with open_store(make_store(folder, numbered(2000))) as owner:
        for key in [*numbered(2000)][::3]:
            del owner[key]
        owner.flush(True)
    return folder


def _extremes(folder: Path) -> Path:
    sizes = {b"": b"", b"a\0b": b"\0", b"k" * 65536: b"", b"large": b"v" * (1 << 22), b"\xff" * 9: b"last"}
    return make_store(folder, sizes)


def _named_otherwise(folder: Path) -> Path:
    made = make_store(folder, numbered(300))
    return made.rename(Path(os.fsdecode(os.fsencode(folder) + b"\xff")))


STORES: dict[str, Callable[[Path], Path]] = {
    "plain": lambda folder: make_store(folder, numbered(3000)),
    "families": _families,
    "blob files": _blobs,
    "the log only": lambda folder: make_store(folder, numbered(300), flush=False),
    "lz4": lambda folder: _compressed(folder, "lz4"),
    "zstd": lambda folder: _compressed(folder, "zstd"),
    "snappy": lambda folder: _compressed(folder, "snappy"),
    "the oldest tables": lambda folder: _compressed(folder, "lz4", 2),
    "the newest tables": lambda folder: _compressed(folder, "lz4", 6),
    "runs": _runs,
    "deleted": _deleted,
    "extremes": _extremes,
    "nothing": lambda folder: make_store(folder, {}),
    "bzip2 of Java": lambda folder: unpacked(folder, "bzlib2"),
    "a name that is not UTF-8": _named_otherwise,
}


@pytest.mark.parametrize("store", STORES)
def test_it_reads_what_rocksdict_reads_and_changes_nothing(store: str, tmp_path: Path) -> None:
    directory = STORES[store](tmp_path / "db")
    before = tree_state(directory)
    with open_read_only(directory) as other:
        families = other.families
    with open_native(directory) as database:
        assert database.families == families
        assert database.directory == directory
        for family in families:
            assert _scan(database, family) == _by_rocksdict(directory, family)
    assert tree_state(directory) == before


@pytest.mark.parametrize(
    "start, end",
    [
        (b"key-00000100", b"key-00000200"),
        (b"key-00000100", b"key-00000101"),
        (b"key-00000100x", b"key-00000101"),
        (b"key-00000100", b"key-00000100"),
        (b"key-00000200", b"key-00000100"),
        (b"", b"key-00000003"),
        (None, b""),
        (b"key-00002990", None),
        (b"x", None),
    ],
)
def test_it_reads_the_range_that_it_is_given(start: bytes | None, end: bytes | None, tmp_path: Path) -> None:
    directory, keys = make_store(tmp_path / "db", numbered(3000)), KeyRange(start=start, end=end)
    with open_native(directory) as database:
        expected = [(key, value) for key, value in numbered(3000).items() if key in keys]
        assert _scan(database, keys=keys) == expected == _by_rocksdict(directory, keys=keys)


def test_the_end_of_a_range_is_kept_as_long_as_its_iterator(tmp_path: Path) -> None:
    """RocksDB has a bare pointer to it."""
    with open_native(make_store(tmp_path / "db", numbered(3000))) as database:
        for _ in range(200):
            with database.iterator("default", KeyRange(end=bytes(bytearray(b"key-00000030")))) as iterator:
                _ = [bytes(bytearray(b"key-00000010")) for _ in range(100)]
                found = 0
                while iterator.valid():
                    found += 1
                    iterator.next()
            assert found == 30


def test_a_damaged_block_is_an_error_and_not_an_end(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "db", numbered(3000))
    (table,) = directory.glob("*.sst")
    flip_byte(table, table.stat().st_size // 2)
    with open_native(directory) as database, database.iterator("default", ALL) as iterator:
        found = 0
        while iterator.valid():
            found += 1
            iterator.next()
        assert 0 < found < 3000
        assert re.search("^Corruption: block checksum mismatch", iterator.error() or "")
    with pytest.raises(CorruptionError, match="block checksum mismatch"):
        _by_rocksdict(directory)


def _table(directory: Path) -> Path:
    return max(directory.glob("*.sst"))


def _manifest(directory: Path) -> Path:
    return next(directory.glob("MANIFEST-*"))


def _with_a_damaged_log(folder: Path) -> Path:
    directory = make_runs(folder, [{"default": {key: b""}} for key in numbered(300)], flush=False)
    (log,) = (each for each in directory.glob("*.log") if each.stat().st_size)
    flip_byte(log, log.stat().st_size // 4)
    return directory


def _ordered_otherwise(folder: Path) -> Path:
    manifest = _manifest(directory := _families(folder))
    manifest.write_bytes(manifest.read_bytes().replace(b"leveldb.BytewiseComparator", b"leveldb.AnotherComparators"))
    return directory


def _harmed(harm: Callable[[Path], object]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        directory = _families(folder)
        harm(directory)
        return directory

    return make


UNREADABLE: dict[str, Callable[[Path], Path]] = {
    "without a table": _harmed(lambda directory: _table(directory).unlink()),
    "a short table": _harmed(lambda directory: os.truncate(_table(directory), 700)),
    "a damaged manifest": _harmed(lambda directory: flip_byte(_manifest(directory), 100)),
    "without CURRENT": _harmed(lambda directory: (directory / "CURRENT").unlink()),
    "a damaged log": _with_a_damaged_log,
    "another order of keys": _ordered_otherwise,
    "a family whose name is not UTF-8": lambda folder: unpacked(folder, "name-not-utf8"),
    "prepared transactions": lambda folder: unpacked(folder, "transactions-write_committed-prepared"),
    "tables elsewhere": lambda folder: unpacked(folder, "elsewhere"),
}


@pytest.mark.parametrize("store", UNREADABLE)
def test_what_cannot_be_opened_is_refused_in_the_same_words(store: str, tmp_path: Path) -> None:
    directory = UNREADABLE[store](tmp_path / "db")
    said = []
    for open_ in (open_read_only, open_native):
        with pytest.raises(RefusedError) as caught, open_(directory):
            pass
        said.append((type(caught.value), caught.value.message, caught.value.hint, caught.value.place))
    assert said[0] == said[1]


def test_what_is_closed_is_not_used(tmp_path: Path) -> None:
    with open_native(make_store(tmp_path / "db", numbered(10))) as database:
        with database.iterator("default", ALL) as closed:
            pass
        left = database.iterator("default", ALL)
        assert left.pointer
        for _ in range(10):
            left.next()
        for use in (left.next, left.key, left.value):
            with pytest.raises(ValueError, match="at no record"):
                use()
    uses: list[Callable[[NativeIterator], object]] = [
        NativeIterator.valid,
        NativeIterator.next,
        NativeIterator.key,
        NativeIterator.value,
        NativeIterator.error,
        lambda iterator: iterator.seek(b""),
    ]
    for iterator in (closed, left):
        iterator.close()
        for each in uses:
            with pytest.raises(ValueError, match="closed"):
                each(iterator)
    with pytest.raises(ValueError, match="closed"):
        database.iterator("default", ALL)
    database.close()


def test_what_is_open_is_closed_where_an_error_is_on_its_way(tmp_path: Path) -> None:
    with pytest.raises(RefusedError), open_native(_families(tmp_path / "db")) as database:
        left = [database.iterator(family, ALL) for family in database.families]
        raise RefusedError("the task failed")
    assert not database.iterators
    for iterator in left:
        with pytest.raises(ValueError, match="closed"):
            iterator.valid()


def test_threads_scan_at_the_same_time_each_with_its_own(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "db", numbered(3000))

    def scan(_: int) -> Pairs:
        with open_native_pooled(directory) as database:
            return _scan(database)

    with keeping_open(), ThreadPoolExecutor(4) as threads:
        assert all(found == [*numbered(3000).items()] for found in threads.map(scan, range(12)))


_ENDING = """
import sys
from pathlib import Path
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.c_api import open_native_pooled
with open_native_pooled(Path(sys.argv[1])) as database:
    left = database.iterator("default", KeyRange())
"""


def test_a_process_may_end_without_closing_anything(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "db", numbered(10))
    done = subprocess.run([sys.executable, "-c", _ENDING, directory], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def _open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_many_openings_leave_no_file_open(tmp_path: Path) -> None:
    directory = _families(tmp_path / "db")
    counts = []
    for _ in range(200):
        with open_native(directory) as database:
            _scan(database)
        counts.append(_open_files())
    assert counts[-1] == counts[0]


def test_the_next_task_gets_what_is_open_alone_and_not_for_another_directory(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "db", numbered(10))
    with keeping_open():
        with open_native_pooled(directory) as first:
            pass
        with open_native_pooled(directory) as second, open_native_pooled(directory) as third:
            assert second is first
            assert third is not first
        with open_store(directory) as owner:
            owner[b"x"] = b"y"
        with open_native_pooled(directory) as changed:
            assert _scan(changed)[-1] == (b"x", b"y")
    with pytest.raises(ValueError, match="closed"):
        changed.iterator("default", ALL)


_FORKING = """
import os, sys
from pathlib import Path
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.c_api import open_native_pooled
from migrate.stores.rocksdb.openings import keeping_open

def read(directory):
    with open_native_pooled(directory) as database, database.iterator("default", KeyRange()) as iterator:
        count = 0
        while iterator.valid():
            count += 1
            iterator.next()
        assert iterator.error() is None
        return database, count

directory = Path(sys.argv[1])
with keeping_open():
    kept, _ = read(directory)
    child = os.fork()
    found, count = read(directory)
    is_right = (found is kept, count) == (child > 0, 10)
    if not child:
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0, "the child"
    assert is_right
"""


def test_a_forked_process_opens_one_of_its_own(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "db", numbered(10))
    done = subprocess.run([sys.executable, "-c", _FORKING, directory], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()


def _by_both(folder: Path, records: dict[bytes, bytes], table: TableOptions) -> tuple[Path, Path]:
    theirs, ours = folder / "theirs.sst", folder / "ours.sst"
    writer = SstWriter(theirs, table)
    writer.write(Batch([*records], [*records.values()]))
    writer.finish()
    with NativeSstWriter(ours, table) as native:
        for key, value in records.items():
            native.put(key, value)
        native.finish()
    return theirs, ours


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
@pytest.mark.parametrize(
    "compression", ["kNoCompression", "kSnappyCompression", "kLZ4Compression", "kLZ4HCCompression"]
)
def test_it_writes_the_same_file_but_for_the_sessions_name(version: int, compression: str, tmp_path: Path) -> None:
    records = numbered(3000) | {b"z%05d" % number: b"abc" * 30 for number in range(3000)}
    files = _by_both(tmp_path, records, TableOptions(compression, version))
    with SstFile(files[0]) as theirs, SstFile(files[1]) as ours:
        sessions = [each._raw_properties["rocksdb.creating.session.identity"] for each in (theirs, ours)]
    first, second = (file.read_bytes() for file in files)
    differing = [at for at, (one, other) in enumerate(zip(first, second, strict=True)) if one != other]
    name = first.index(sessions[0])
    rest = [at for at in differing if not name <= at < name + len(sessions[0])]
    assert second[name:].startswith(sessions[1])
    blocks = 1 if version < 6 else 120  # those with other checksums, of four bytes
    assert len(rest) <= 4 * blocks


def test_it_compresses_as_rocksdict_does(tmp_path: Path) -> None:
    """rocksdict has no zlib, and another zstd: what one writes, the other reads."""
    records = {b"z%05d" % number: b"abc" * 30 for number in range(3000)}
    for compression in ("kNoCompression", *_COMPRESSIONS, "kXpressCompression"):
        theirs, ours = _by_both(tmp_path, records, TableOptions(compression))
        sizes = [file.stat().st_size for file in (theirs, ours)]
        assert abs(sizes[0] - sizes[1]) <= 0.01 * sizes[0], compression


def test_a_record_out_of_order_is_an_error_in_the_same_words(tmp_path: Path) -> None:
    with NativeSstWriter(tmp_path / "a.sst", TableOptions()) as writer:
        writer.put(b"b", b"")
        with pytest.raises(StatusError, match=r"^Invalid argument: Keys must be added in strict ascending order"):
            writer.put(b"a", b"")
        writer.put(b"c", b"")


def test_a_file_that_is_not_finished_is_removed(tmp_path: Path) -> None:
    for records in ({}, numbered(3000)):
        with NativeSstWriter(tmp_path / "a.sst", TableOptions()) as writer:
            for key, value in records.items():
                writer.put(key, value)
            assert (tmp_path / "a.sst").exists()
        assert not [*tmp_path.iterdir()]
        with pytest.raises(ValueError, match="closed"):
            writer.put(b"a", b"")


def test_a_file_without_a_record_is_an_error(tmp_path: Path) -> None:
    with NativeSstWriter(tmp_path / "a.sst", TableOptions()) as writer, pytest.raises(StatusError, match="no entries"):
        writer.finish()


def _refused_by_rocksdict(file: Path, records: dict[bytes, bytes]) -> str:
    with pytest.raises(ChunkFailedError) as caught:
        SstWriter(file, TableOptions()).write(Batch([*records], [*records.values()]))
    return str(caught.value.__cause__)


def test_a_full_disk_is_an_error_in_the_same_words(tmp_path: Path) -> None:
    records = numbered(3000, value_size=1000)
    with small_disk(tmp_path / "disk", "1m") as disk:
        theirs = _refused_by_rocksdict(disk / "a.sst", records)
        (disk / "a.sst").unlink()
        with NativeSstWriter(disk / "a.sst", TableOptions()) as writer, pytest.raises(StatusError) as ours:
            for key, value in records.items():
                writer.put(key, value)
            writer.finish()
        assert str(ours.value) == theirs
        assert explain_system_error(ours.value) is not None
        assert not [*disk.iterdir()]


def test_a_file_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StatusError, match="No such file or directory"):
        NativeSstWriter(tmp_path / "missing" / "a.sst", TableOptions())
