"""Files of the old store that are damaged, truncated, missing or unreadable, and stores that a process holds."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.bad_input.support import Migration
from tests.shared.locks import LOCK_FILE, OPEN_STORE, another_process
from tests.situations.situation import DONE, FAILED, REFUSED, Around, Do, app, completes, published, raw
from tests.support import flip_byte, make_runs, numbered

DATABASE = "0_1/rocksdb/orders"
SST = f"{DATABASE}/000009.sst"
MANIFEST = f"{DATABASE}/MANIFEST-000005"
CURRENT = f"{DATABASE}/CURRENT"


def spoil(name: str, damage: Callable[[Path], object]) -> Do:
    """Apply a change to the file, and keep a copy of it."""

    def do(migration: Migration) -> None:
        file = next(migration.source.glob(name))
        shutil.copy2(file, migration.folder / "kept")
        damage(file)

    return do


def restored(name: str) -> Do:
    """Restore the file from its copy."""
    return lambda migration: shutil.copy2(migration.folder / "kept", _named(migration, name))


def _named(migration: Migration, name: str) -> Path:
    found = next(migration.source.glob(name), None)
    return migration.source / name if found is None else found


def flip(at: float) -> Callable[[Path], object]:
    """Change one byte, at this offset or share of the file's size."""
    return lambda file: flip_byte(file, int(at * file.stat().st_size) if at < 1 else int(at))


def shorten(size: int) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(file.read_bytes()[:-size] if size else b"")


def overwrite(content: bytes) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(content)


def lose_partition(migration: Migration) -> None:
    shutil.rmtree(migration.source / DATABASE)
    (migration.source / DATABASE).mkdir()


def held(file: str, code: str) -> Callable[[Migration], Around]:
    """Another process holds the store."""
    return lambda migration: another_process(code, migration.source / file)


def touch(file: str) -> Do:
    return lambda migration: (migration.source / file).touch()


def log_alone(damage: Callable[[Path], object]) -> Do:
    """500 records that lie in the write-ahead log only, written in two steps, and a change of it."""

    def do(migration: Migration) -> None:
        shutil.rmtree(migration.source)
        found = [*numbered(500).items()]
        runs = [{"default": dict(found[:250])}, {"default": dict(found[250:])}]
        make_runs(migration.source, runs, flush=False)
        spoil("*.log", damage)(migration)

    return do


HELD = ("is held by process", "stop the application", "run the command again")
SITUATIONS = [
    *(app(f"a data file of {what}", REFUSED, DATABASE, "000009.sst", "restore", do=spoil(SST, damage),
          then=completes(restored(SST)))
      for what, damage in (("a byte less", shorten(1)), ("100 bytes less", shorten(100)), ("no bytes", shorten(0)),
                           ("which nothing is left", Path.unlink))),
    raw("a missing data file of one directory", REFUSED, ".sst", "restore", do=spoil("*.sst", Path.unlink)),
    raw("a damaged block", FAILED, "column family 'default'", 'the key "key-', "restore",
        do=spoil("*.sst", flip(0.5)), then=completes(restored("*.sst"))),
    raw("a damaged first block", FAILED, "column family 'default'", "its first record",
        do=spoil("*.sst", flip(100)), then=completes(restored("*.sst"))),
    raw("a flipped bit in the log", REFUSED, "state", "restore", do=log_alone(flip(0.25)),
        then=completes(restored("*.log"), lambda: {".": numbered(500)})),
    raw("a log that a crash cut short", do=log_alone(shorten(1)),
        then=published(lambda: {".": dict([*numbered(500).items()][:250])})),
    app("a missing manifest", REFUSED, DATABASE, "MANIFEST-000005", "CURRENT", "restore",
        do=spoil(MANIFEST, Path.unlink)),
    app("a damaged manifest", REFUSED, DATABASE, "restore", do=spoil(MANIFEST, flip(20))),
    app("a missing CURRENT", REFUSED, DATABASE, "has no file CURRENT", "restore", do=spoil(CURRENT, Path.unlink)),
    raw("a missing CURRENT of one directory", REFUSED, "CURRENT", "restore", do=spoil("CURRENT", Path.unlink)),
    *(app(f"a CURRENT with {content!r}", REFUSED, DATABASE, "CURRENT", "restore",
          do=spoil(CURRENT, overwrite(content)))
      for content in (b"", b"nonsense\n", b"MANIFEST-999999\n", b"\xff\xfe\n")),
    app("a store partition that lost all its files", REFUSED, DATABASE, "CURRENT", "restore", do=lose_partition),
    app("a side file that is no text", REFUSED, "orders.position is not a position file", "remove it",
        do=lambda migration: (migration.source / "0_1/orders.position").write_bytes(b"\xff\xfe"), needs_records=True),
    raw("a link in a directory", REFUSED, "symbolic link", do=lambda m: (m.source / "more").symlink_to(m.folder)),
    raw("a damaged OPTIONS file", REFUSED, "OPTIONS-", "cannot be parsed",
        do=lambda m: max(m.source.glob("OPTIONS-*")).write_text("neither a section nor a key\n")),
    raw("no OPTIONS file", do=lambda migration: [file.unlink() for file in migration.source.glob("OPTIONS-*")]),
    *(app(f"a lock on {file}", REFUSED, f"{{source}}/{file}", *HELD, plan=DONE, then=completes(),
          do=touch(file), around=held(file, LOCK_FILE))
      for file in ("0_2/rocksdb/orders/LOCK", ".lock")),
    raw("a store that RocksDB holds open", REFUSED, "{source}/LOCK", *HELD[:2], plan=DONE, then=completes(),
        around=held(".", OPEN_STORE)),
    app("a lock on another store", around=held("0_2/rocksdb/refunds/LOCK", LOCK_FILE)),
]  # fmt: skip
