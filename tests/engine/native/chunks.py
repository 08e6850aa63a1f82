"""Chunks by chance, of real stores: what the native engine makes of them is what the portable one makes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

from rocksdict import Rdict

from formats import Conversion, get_format
from migrate.engine.chunk_source import Inputs
from migrate.engine.engine import Digest, Engine, FamilyWork, Hooks, NewFamily, Passed
from migrate.engine.left_out import LeftOut
from migrate.engine.native.native import Native
from migrate.engine.portable import Portable
from migrate.engine.rejects import RejectsByReason
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.stores.rocksdb.sst import SstFile
from migrate.stores.rocksdb.writing import TableOptions, create_database
from tests.support import KEY_VALUE, TIMESTAMPED, Tables, make_store, read_family

NATIVE, PORTABLE = Native(), Portable()
Records = dict[bytes, bytes]
FAUST = "faust.table"
CONVERSIONS = [
    Conversion(get_format(source), get_format(target))
    for source, target in (
        (KEY_VALUE, TIMESTAMPED),
        (TIMESTAMPED, KEY_VALUE),
        (KEY_VALUE, KEY_VALUE),
        (TIMESTAMPED, "kafka-streams.headers-key-value"),
        ("kafka-streams.headers-key-value", KEY_VALUE),
        ("kafka-streams.window", "kafka-streams.timestamped-window"),
        (FAUST, FAUST),
        (FAUST, "streamiz.timestamped-key-value"),
        ("kafka-streams.session", "kafka-streams.headers-session"),
    )
]


def work_on(folder: Path, conversion: Conversion, keys: KeyRange | None = None) -> FamilyWork:
    mapping = FamilyMapping(source="default", target="default")
    return FamilyWork(Inputs((str(folder),)), mapping, keys or KeyRange(), conversion)


def hooks_of(rejects: RejectsByReason | None = None) -> Hooks:
    return Hooks(lambda: None, rejects or RejectsByReason(), LeftOut())


def outcome(call: Callable[[Engine, Hooks], Any], engine: Engine, hooks: Hooks) -> object:
    """What it returns, but for the engine's name, or how it fails; and what is counted."""
    try:
        returned = call(engine, hooks)
    except Exception as error:  # noqa: BLE001 - compared
        return type(error), str(error), getattr(error, "hint", ""), getattr(error, "place", None)
    if isinstance(returned, Passed):
        returned = returned._replace(engine="")
    if returned is None:  # where the sides differ, what was counted until then does not matter
        return None
    left = hooks.left_out
    return returned, hooks.rejects.reasons, hooks.rejects.count, left.dropped, left.not_carried


def both(call: Callable[[Engine, Hooks], Any], rejects: Callable[[], RejectsByReason] = RejectsByReason) -> object:
    """The outcome of both engines, which is the same."""
    native, portable = (outcome(call, engine, hooks_of(rejects())) for engine in (NATIVE, PORTABLE))
    assert native == portable, f"native: {native}\nportable: {portable}"
    return native


def check_chunk(random: Random, folder: Path, *, most_value: int) -> int:
    """Make a store, and do all with it by both engines. Returns its number of records."""
    conversion = random.choice(CONVERSIONS)
    records = _records(random, most_value)
    for prefix in conversion.source.metadata_keys:
        records |= {prefix + random.randbytes(size): random.randbytes(8) for size in random.choice(((), (0,), (0, 3)))}
    table = TableOptions(
        random.choice(("kNoCompression", "kLZ4Compression", "kZSTD", "kSnappyCompression")),
        random.choice((5, 5, 2, 3, 4, 6)),
    )
    old = _old_store(random, folder / "old", records)
    work = work_on(old, conversion, key_range(random, [*records]))
    assert NATIVE.declines(work, hooks_of()) == ""

    files = {engine.name: folder / f"{engine.name}.sst" for engine in (NATIVE, PORTABLE)}
    native = both(lambda engine, hooks: engine.rewrite(work, hooks, files[engine.name], table))
    if not (isinstance(native, tuple) and isinstance(native[0], Passed) and native[0].written.records):
        assert not files[NATIVE.name].exists()
        return len(records)
    seen = [_properties(file) for file in files.values()]
    assert seen[0] == seen[1]
    new = {name: create(folder / f"new-{name}", file) for name, file in files.items()}
    expected = read_family(new[PORTABLE.name])
    assert read_family(new[NATIVE.name]) == expected
    _check_comparisons(random, folder, work, new[NATIVE.name], expected)
    return len(records)


def create(folder: Path, file: Path) -> Path:
    """A store of one SST file, which is moved there."""
    create_database(folder, {}, {"default": [file]}, {})
    return folder


def _check_comparisons(random: Random, folder: Path, work: FamilyWork, new: Path, expected: Records) -> None:
    left_out = [*random.sample([*expected], min(len(expected), random.choice((0, 0, 1, 2)))), b"\xff" * 9]
    for leaving in ((), left_out):
        family = NewFamily(new, "default", leaving)
        for keys in (KeyRange(), key_range(random, [*expected])):
            digest_by_both(family, keys)
        compare_by_both(work, family)
    changed = make_store(folder / "changed", _changed(random, expected))
    compare_by_both(work, NewFamily(changed, "default", [b"added"]))


def digest_by_both(new: NewFamily, keys: KeyRange) -> object:
    return both(lambda engine, _: engine.digest(new, keys, lambda: None))


def compare_by_both(work: FamilyWork, new: NewFamily) -> object:
    return both(lambda engine, hooks: compared(engine, work, hooks, new))


def compared(engine: Engine, work: FamilyWork, hooks: Hooks, new: NewFamily) -> Passed | None:
    """Without the digests, which a comparison does not make."""
    passed = engine.compare(work, hooks, new)
    return passed and passed._replace(scanned=Digest(), written=Digest(records=passed.written.records))


def _changed(random: Random, records: Records) -> Records:
    key = random.choice([*records])
    changed = dict(records)
    kind = random.randrange(5)
    if kind == 0:
        del changed[key]
    elif kind == 1:
        changed[key] += b"\0"
    elif kind == 2 and changed[key]:
        changed[key] = changed[key][:-1] + bytes([changed[key][-1] ^ 1])
    elif kind == 3:
        changed[key + b"\0"] = b"one more"
    else:
        changed[b"added"] = b"that does not count"
    return changed


def _properties(file: Path) -> tuple[object, ...]:
    """Of the table, but for what compression libraries of two builds may make of the same bytes."""
    with SstFile(file) as table:
        found = table.properties()
        return replace(found, data_bytes=0), found.compression == "NoCompression" and found.data_bytes


def key_range(random: Random, keys: list[bytes]) -> KeyRange:
    """All, some or none of the keys, with ends that are keys, or beside them."""

    def end() -> bytes | None:
        if not keys or random.randint(0, 2) == 0:
            return random.choice((None, None, b"", random.randbytes(3)))
        return random.choice(keys) + random.choice((b"", b"", b"\0"))

    return KeyRange(start=end(), end=end())


def _records(random: Random, most_value: int) -> Records:
    count = random.choice((0, 1, 2, 17, 100, 1500))
    longest = random.choice((4, 20, 20, 300)) if random.randint(0, 9) else 65536
    largest = random.choice((0, 20, 20, 200, 5000))
    records = {}
    for _ in range(count):
        key = random.randbytes(random.randint(0, longest))
        records[key] = random.choice((b"", b"\0", struct.pack(">q", 1 << 40))) + random.randbytes(
            random.randint(0, largest)
        )
        if longest > 1000 and len(records) > 40:
            break
    if records and random.randint(0, 19) == 0:
        records[random.choice([*records])] = bytes(8) + random.randbytes(random.randint(0, most_value))
    return records


def _old_store(random: Random, path: Path, records: Records) -> Path:
    tables = Tables(
        random.choice(("none", "lz4", "zstd", "snappy")),
        random.choice((None, 2, 3, 4, 5, 6)),
        partitioned_index=random.randint(0, 9) == 0,
    )
    options = tables.options()
    options.create_if_missing(True)
    if random.randint(0, 3) == 0:
        options.set_enable_blob_files(True)
        options.set_min_blob_size(random.choice((0, 100, 1000)))
    owner = Rdict(str(path), options)
    for key in random.sample([*records], len(records)):
        if random.randint(0, 9) == 0:
            owner[key] = b"before"
        if random.randint(0, 500) == 0:
            owner.flush(True)
        owner[key] = records[key]
    for _ in range(random.choice((0, 0, 5))):
        if (gone := random.randbytes(5)) not in records:
            owner[gone] = b"deleted"
            owner.flush(True)
            del owner[gone]
    if random.randint(0, 9):
        owner.flush(True)
    owner.close()
    return path


def check_chunks(count: int, seed: int, folder: Path, *, most_value: int) -> int:
    """So many chunks. Returns the number of their records; raises AssertionError."""
    records = 0
    for number in range(count):
        here = folder / str(number)
        here.mkdir()
        try:
            records += check_chunk(Random(f"{seed}:{number}"), here, most_value=most_value)
        except Exception as error:
            error.add_note(f"seed {seed}, chunk {number}")
            raise
        finally:
            rmtree(here)
    return records
