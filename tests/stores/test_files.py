"""Durable files, links and copies; what lies in a RocksDB directory by name; and what its OPTIONS file says."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from migrate.errors import RefusedError
from migrate.stores.files import (
    check_has_links,
    copy_file,
    files_named,
    fsync_all,
    fsync_tree,
    link_file,
    link_or_copy,
    make_directories,
    remove_tree,
    total_size,
    write_durably,
    write_new,
)
from migrate.stores.rocksdb.layout import check_readable, database_files, is_immutable, is_rocksdb
from migrate.stores.rocksdb.options_file import BYTEWISE, FamilyOptions, check_options, read_options
from tests.shared.disks import folder_elsewhere
from tests.support import FIXTURE, Tables, make_families, numbered

ORDERS = FIXTURE / "orders-app" / "0_0" / "rocksdb" / "orders"


def test_write_durably_replaces_the_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write_durably(file, b"a long first version")
    write_durably(file, b"second")
    assert file.read_bytes() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize(
    ("write", "second", "error"),
    [(write_durably, "not bytes", TypeError), (write_new, b"of another writer", FileExistsError)],
)
def test_a_write_that_fails_leaves_the_old_file(
    write: Callable[..., None], second: object, error: type[Exception], tmp_path: Path
) -> None:
    write(tmp_path / "plan.json", b"first")
    with pytest.raises(error):
        write(tmp_path / "plan.json", second)
    assert (tmp_path / "plan.json").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_link_that_was_made_while_its_answer_was_lost_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def link_twice(source: Path, target: Path) -> None:
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    write_new(tmp_path / "entry", b"ours")
    assert (tmp_path / "entry").read_bytes() == b"ours"
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "entry", b"another's")
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_hard_links_is_refused(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(RefusedError, match="cannot make a hard link"):
        check_has_links(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_fsync_all_syncs_each_path_once_and_reports_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / str(number) for number in range(40)]
    for file in files:
        file.touch()
    synced: list[Path] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    fsync_all([*files, tmp_path, *files])
    assert sorted(synced) == sorted([*files, tmp_path])
    with pytest.raises(FileNotFoundError):
        fsync_all([*files, tmp_path / "missing"])


def test_files_named_are_found_in_order_and_not_through_links(tmp_path: Path) -> None:
    for name in ("b/IDENTITY", "a/IDENTITY", "a/c/IDENTITY", "a/c/other"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "linked").symlink_to("a")
    assert [str(file.relative_to(tmp_path)) for file in files_named("IDENTITY", tmp_path)] == [
        "a/IDENTITY",
        "a/c/IDENTITY",
        "b/IDENTITY",
    ]
    assert list(files_named("IDENTITY", tmp_path / "missing")) == []


def test_write_durably_syncs_the_file_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "plan.json"
    synced: list[tuple[str, bool]] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").resolve().name, file.exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    write_durably(file, b"content")
    (first, existed), (second, exists) = synced
    assert (first.endswith(".tmp"), existed) == (True, False)
    assert (second, exists) == (tmp_path.name, True)


def test_make_directories_makes_all_of_them(tmp_path: Path) -> None:
    make_directories(tmp_path / "a" / "b" / "c")
    make_directories(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_a_place_that_takes_no_directories_is_named() -> None:
    with pytest.raises(RefusedError, match="no directory can be made in /proc"):
        make_directories(Path("/proc/stateferry/table"))


def test_links_share_the_file_and_copies_do_not(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_bytes(b"x" * 10)
    source.chmod(0o640)
    os.utime(source, ns=(1, 1))
    link_or_copy(source, tmp_path / "linked")
    link_file(source, tmp_path / "linked too")
    copy_file(source, tmp_path / "copied")
    assert source.stat().st_nlink == 3
    copied = (tmp_path / "copied").stat()
    assert (copied.st_mode & 0o777, copied.st_mtime_ns, copied.st_nlink) == (0o640, 1, 1)
    assert total_size([source, tmp_path / "copied"]) == 20


def test_a_link_across_file_systems_is_refused_or_becomes_a_copy(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_bytes(b"content")
    with folder_elsewhere(tmp_path) as elsewhere:
        target = elsewhere / "a"
        with pytest.raises(RefusedError, match='snapshot = "copy"'):
            link_file(source, target)
        assert not target.exists()
        link_or_copy(source, target)
        assert target.read_bytes() == b"content"


@pytest.mark.parametrize("link", [link_file, link_or_copy])
def test_an_existing_target_is_never_linked_over(link: object, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        link(tmp_path / "a", tmp_path / "b")  # type: ignore[operator]
    assert (tmp_path / "b").read_bytes() == b"old"


def test_trees_are_synced_and_removed_whole(tmp_path: Path) -> None:
    (tmp_path / "t" / "deep").mkdir(parents=True)
    (tmp_path / "t" / "deep" / "file").write_bytes(b"x")
    (tmp_path / "t" / "dangling").symlink_to("nowhere")
    fsync_tree(tmp_path / "t")
    remove_tree(tmp_path / "t")
    remove_tree(tmp_path / "t")
    assert not (tmp_path / "t").exists()


# What lies in a directory


def test_a_directorys_files_by_kind() -> None:
    files = database_files(ORDERS)
    assert [path.suffix for path in files.immutable] == [".sst"] * 3
    kinds = [path.name.split("-")[0].lstrip("0123456789") for path in files.mutable]
    assert sorted(kinds) == [".log", "CURRENT", "IDENTITY", "MANIFEST", "OPTIONS"]
    assert "LOCK" not in {path.name for path in files.every}
    check_readable(files)


@pytest.mark.parametrize(
    ("name", "immutable"),
    [("000012.sst", True), ("000012.blob", True), ("000012.log", False), ("x.sst", False), ("000012.sst.bak", False)],
)
def test_only_tables_and_blobs_never_change(name: str, immutable: bool) -> None:
    assert is_immutable(name) is immutable


def test_what_is_a_rocksdb_directory(tmp_path: Path) -> None:
    assert is_rocksdb(ORDERS)
    assert not is_rocksdb(ORDERS.parent)
    assert not is_rocksdb(tmp_path / "missing")


# OPTIONS


def test_reads_what_kafka_streams_chose() -> None:
    options = read_options(FIXTURE / "orders-app" / "0_0" / "rocksdb" / "customers")
    assert sorted(options) == ["default", "keyValueWithTimestamp"]
    assert options["keyValueWithTimestamp"] == FamilyOptions(
        family="keyValueWithTimestamp",
        comparator=BYTEWISE,
        merge_operator=None,
        compression="kNoCompression",
        table_factory="BlockBasedTable",
        format_version=6,
    )


def test_reads_the_newest_options_file(tmp_path: Path) -> None:
    path = make_families(tmp_path / "db", {"a=b [x]": numbered(3)}, tables=Tables(compression="lz4", format_version=4))
    (path / "OPTIONS-000001").write_text('[CFOptions "old"]\ncompression=kZSTD\n', encoding="utf-8")
    options = read_options(path)
    assert sorted(options) == ["a=b [x]", "default"]
    assert (options["a=b [x]"].compression, options["a=b [x]"].format_version) == ("kLZ4Compression", 4)


def test_without_an_options_file_there_are_no_options(tmp_path: Path) -> None:
    assert read_options(tmp_path) == {}


GOOD = FamilyOptions("default", BYTEWISE, None, "kNoCompression", "BlockBasedTable", 5)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(GOOD, comparator="rocksdb.ReverseBytewiseComparator"), "ReverseBytewise"),
        (replace(GOOD, merge_operator="StringAppendOperator"), "StringAppendOperator"),
        (replace(GOOD, table_factory="PlainTable"), "PlainTable"),
    ],
)
def test_what_cannot_be_read_is_refused(bad: FamilyOptions, words: str, tmp_path: Path) -> None:
    check_options(tmp_path, {"default": GOOD})
    with pytest.raises(RefusedError, match=words):
        check_options(tmp_path, {"default": bad})


def test_a_merge_operator_is_found_in_the_file(tmp_path: Path) -> None:
    text = (
        '[CFOptions "default"]\n  comparator=leveldb.BytewiseComparator\n  merge_operator={id=StringAppendOperator;}\n'
    )
    (tmp_path / "OPTIONS-000007").write_text(text, encoding="utf-8")
    assert read_options(tmp_path)["default"].merge_operator == "StringAppendOperator"
