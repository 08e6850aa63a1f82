"""Digests of whole tables, by which later damage is noticed: RocksDB checks a block only when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import xxhash

from migrate.stores.files import side_by_side
from migrate.stores.regular_files import walk
from migrate.stores.rocksdb.layout import is_immutable

_BLOCK = 1 << 20
Tables = dict[str, dict[str, str]]
"""By store partition, the XXH3 digest of each SST and blob file, by its path in the store partition."""
Inode = tuple[int, int]


def tables_in(root: Path) -> Iterator[Path]:
    """The SST and blob files of all RocksDB directories below `root`."""
    for here, _, names in walk(root):
        yield from (here / name for name in names if is_immutable(name))


def digests_of(files: Iterable[Path]) -> dict[Path, str]:
    """The digests of these files; those that are gone, or cannot be read, have none."""
    found: dict[Path, str] = {}

    def read(file: Path) -> None:
        digest = xxhash.xxh3_64()
        with suppress(OSError):
            with file.open("rb", buffering=0) as content:
                while block := content.read(_BLOCK):
                    digest.update(block)
            found[file] = digest.hexdigest()

    side_by_side(read, [*files])
    return found


def table_digests(folders: Mapping[str, Path], known: Mapping[Inode, str] | None = None) -> Tables:
    """The digests of the tables of these store partitions; `known`: of files that are not to be read again."""
    paths = {partition: [*tables_in(folder)] for partition, folder in folders.items()}
    linked = {file: (known or {}).get(inode(file)) for files in paths.values() for file in files}
    found = digests_of(file for file, digest in linked.items() if digest is None)
    found |= {file: digest for file, digest in linked.items() if digest is not None}
    return {
        partition: {str(file.relative_to(folders[partition])): found[file] for file in sorted(files) if file in found}
        for partition, files in paths.items()
    }


def inode(file: Path) -> Inode:
    """What all hard links to a file have in common."""
    status = file.stat()
    return status.st_dev, status.st_ino
