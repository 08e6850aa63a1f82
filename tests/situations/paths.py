"""Paths that name something else or do not exist, and directories that cannot be used."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest

from tests.bad_input.support import Migration, expected_orders, raw_records
from tests.situations.situation import RECORDS, REFUSED, Do, app, completes, published, raw
from tests.support import make_store, numbered

APPLICATION = "<state.dir>/<application.id>"
BELOW = "name one in `path`, or the store in `store`"
THEIRS = "there are: customers, orders, refunds"


def file(name: str, content: str = "") -> object:
    """Create a file."""
    return lambda migration: (migration.folder / name).write_text(content)


def streamiz(migration: Migration) -> None:
    make_store(migration.folder / "other/0-0/rocksdb/orders", numbered(3))


def faust(migration: Migration) -> None:
    make_store(migration.folder / "other/v1/tables/orders-0.db", numbered(3))


def quix(migration: Migration) -> None:
    make_store(migration.folder / "other/default/orders-topic/0", numbered(3))


def spark(migration: Migration) -> None:
    for name in ("state/0/0", "offsets"):
        (migration.folder / "other" / name).mkdir(parents=True)
    (migration.folder / "other/state/0/0/1.zip").touch()
    (migration.folder / "other/metadata").touch()


def linked(migration: Migration) -> None:
    (migration.folder / "linked").symlink_to(migration.source)


def directory(name: str, migration: Migration) -> None:
    (migration.folder / name).mkdir()


def target_with_a_file(migration: Migration) -> None:
    migration.target.mkdir()
    (migration.target / "theirs").write_text("kept")


def without_it(migration: Migration) -> None:
    assert [path.name for path in migration.target.iterdir()] == ["theirs"]
    (migration.target / "theirs").unlink()
    migration.target.rmdir()


@contextmanager
def mounted(migration: Migration, *, read_only: bool = False) -> Iterator[None]:
    """The folder is `m` in itself once more, as containers mount volumes; skips where this process may not mount."""
    place = migration.folder / "m"
    place.mkdir()
    done = subprocess.run(["mount", "--bind", migration.folder, place], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this process may not mount: {done.stderr.decode().strip()}")
    try:
        if read_only:
            subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)
        yield
    finally:
        subprocess.run(["umount", place], check=True)


@contextmanager
def mounted_and_full(migration: Migration) -> Iterator[None]:
    place = migration.folder / "m/out"
    with mounted(migration), pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda at: SimpleNamespace(free=0 if at == place else 1 << 40))
        yield


def published_in(path: str) -> Do:
    """Check that the new store is there."""

    def check(migration: Migration) -> None:
        assert (migration.folder / path / "CURRENT").exists()

    return check


def a_mebibyte(migration: Migration) -> None:
    shutil.rmtree(migration.source)
    make_store(migration.source, {b"k%d" % number: bytes(20_972) for number in range(50)})
    directory("out", migration)


OTHER = {"path": "other"}
COPY = {"snapshot": "copy"}
ON_A_MOUNT = {"path": "m/state"}
ONE_OFF = [
    (".", "holds no task directory", "did you mean", "orders-app'"),
    ("orders-app/0_0", "is a task directory", "did you mean", "orders-app'"),
    ("orders-app/0_0/rocksdb", "holds no task directory", "customers, orders, refunds", "orders-app'"),
    ("orders-app/0_0/rocksdb/orders", "is a RocksDB directory", "leave `store` out", "orders-app'"),
]
SITUATIONS = [
    raw("nothing wrong"),
    app("an application", target={"path": None}),
    app("one RocksDB directory of an application", source={"path": "orders-app/0_0/rocksdb/orders", "store": None},
        then=published(lambda: {".": expected_orders()["0_0/rocksdb/orders"]})),
    app("a link to the source", source={"path": "linked"}, do=linked, then=published(expected_orders)),
    raw("a target in a folder that does not exist", target={"path": "deep/er/new"},
        then=published(lambda: {".": raw_records(RECORDS)})),
    app("a source that does not exist", REFUSED, "{folder}/nowhere does not exist",
        f"let [source] path name the application's own directory, {APPLICATION}", source={"path": "nowhere"}),
    raw("a RocksDB directory that does not exist", REFUSED, "{folder}/nowhere", "does not exist", "[source] path",
        source={"path": "nowhere"}),
    app("a source that is a file", REFUSED, "kafka-streams-process-metadata is not a directory", APPLICATION,
        source={"path": "orders-app/kafka-streams-process-metadata"}),
    app("a source that is empty", REFUSED, "{folder}/empty", "holds no task directory", "is empty", APPLICATION,
        source={"path": "empty"}, do=partial(directory, "empty")),
    *(app(f"a source one level off, {path}", REFUSED, "{folder}/" * (path != ".") + path * (path != ".") or "{folder}",
          *said, source={"path": path}) for path, *said in ONE_OFF),
    *(app(f"a path above RocksDB directories, {path}", REFUSED, f"{{folder}}/{path}", "no RocksDB directory", "orders",
          BELOW, source={"path": path, "store": None})
      for path in ("orders-app", "orders-app/0_0", "orders-app/0_0/rocksdb")),
    app("a directory of Streamiz", REFUSED, "{folder}/other is a state directory of streamiz, and not of kafka-streams",
        "next: name one of its formats as [source] format, streamiz.*", source=OTHER, do=streamiz),
    *(app(f"a directory of {do.__name__}", REFUSED,
          f"{{folder}}/other holds no task directory (like 0_0); there are: {there}", APPLICATION, source=OTHER, do=do)
      for do, there in ((faust, "v1"), (quix, "default"), (spark, "metadata, offsets, state"))),
    *(raw(f"a directory of {do.__name__} as a RocksDB", REFUSED,
          "{folder}/other is no RocksDB directory: neither CURRENT nor a MANIFEST is in it", below, source=OTHER, do=do)
      for do, below in ((faust, f"RocksDB directories below it: v1/tables/orders-0.db; {BELOW}"),
                        (spark, "check [source] path"))),
    *(app(f"a store that is not there, {name}", REFUSED, f"no key-value store '{name}' in {{source}}", meant, THEIRS,
          source={"store": name})
      for name, meant in (("order", "did you mean 'orders'?"), ("refnds", "did you mean 'refunds'?"),
                          ("Refunds", "did you mean 'refunds'?"), ("zzz", ""))),
    app("one store of several that is not there", REFUSED, "no key-value store 'refund'", "did you mean 'refunds'?",
        source={"store": None, "stores": ["orders", "refund"]}),
    raw("a target that exists", REFUSED, "[target] path {target} exists already",
        "name a path that does not exist yet", do=target_with_a_file, then=completes(without_it)),
    app("an empty target that exists", REFUSED, "[target] path {target} exists already",
        "name a path that does not exist yet", do=lambda migration: migration.target.mkdir(parents=True)),
    *(app(f"a target that contains the source or lies in it, {path}", REFUSED, "[target] path", where, "name a",
          target={"path": path})
      for path, where in (("orders-app", "{source}"), ("orders-app/new", "{source}/new"), (".", "{folder}"))),
    *(app(f"a work_dir inside the source, {path}", REFUSED,
          f"work_dir {{folder}}/{path} lies inside the application's state directory",
          "put it beside that directory: a foreign directory inside can hide stores", work_dir=path)
      for path in ("orders-app", "orders-app/work", "orders-app/0_0")),
    app("a work_dir inside the source by a link", REFUSED, "inside the application's state directory",
        work_dir="linked/work", do=linked),
    app("a work_dir that is a file", REFUSED, "{folder}/file", "is not a directory", "work_dir", work_dir="file",
        do=file("file")),
    *(raw(f"links from another mount, read only: {is_so}", REFUSED, 'or set [run] snapshot = "copy"',
          "cannot hard-link {folder}/m/state to {home}: Invalid cross-device link", source=ON_A_MOUNT,
          around=partial(mounted, read_only=is_so)) for is_so in (False, True)),
    *(raw(f"copies from another mount, read only: {is_so}", source=ON_A_MOUNT, run=COPY, then=published_in("new"),
          around=partial(mounted, read_only=is_so)) for is_so in (False, True)),
    raw("a cut-over across two mounts", REFUSED, "are on different file systems or mounts, so that they cannot be exch",
        source=ON_A_MOUNT, run=COPY, target={"path": None}, around=mounted),
    raw("a target on a mount where nothing can be renamed", REFUSED, "cannot write to {folder}/m/out",
        "name another [target] path", target={"path": "m/out/new"}, do=partial(directory, "out"),
        around=partial(mounted, read_only=True)),
    raw("a target on another mount", target={"path": "m/out/new"}, do=partial(directory, "out"), around=mounted,
        then=published_in("out/new")),
    raw("a target on another mount without room for copies", REFUSED,  # of the new store, and of what is carried over
        "[target] path {folder}/m/out/new has 0.0 MiB free, the new stores may need 2.2 MiB",
        target={"path": "m/out/new"}, do=a_mebibyte, around=mounted_and_full),
    raw("a work_dir with a percent sign", REFUSED, work_dir="100%"),
    raw("a target in the migration's folder", REFUSED, "[target] path",
        "lies inside the migration's own folder", target={"path": "work/test/new/store"}),
    raw("a foreign file in a directory that is exchanged", REFUSED, "holds notes.txt, which is not RocksDB's",
        target={"path": None}, do=file("state/notes.txt")),
    raw("a foreign directory in one that is exchanged", REFUSED, "holds backups, which is not RocksDB's",
        target={"path": None}, do=partial(directory, "state/backups")),
    raw("a foreign file in a directory that stays", do=file("state/notes.txt")),
]  # fmt: skip
