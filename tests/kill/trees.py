"""Directories by content: what an application sees of its state."""

import hashlib
import stat
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support import read_families

SHOWN = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory."""

    mode: int
    owner: tuple[int, int]
    content: str
    modified_ns: int


Tree = dict[str, Entry]
"""By path within the root, which is `.` itself."""
Families = dict[str, dict[bytes, bytes]]


def read_tree(root: Path) -> Tree:
    """Everything at and below `root`."""
    return {str(path.relative_to(root)): _entry(path) for path in (root, *sorted(root.rglob("*")))}


def timeless(tree: Tree) -> Tree:
    """Without times: names, bytes, modes and owners."""
    return {name: replace(entry, modified_ns=0) for name, entry in tree.items()}


def outside(tree: Tree, folders: Iterable[str]) -> Tree:
    """Without what lies in these folders; the folders themselves stay."""
    inside = tuple("" if folder == "." else f"{folder}/" for folder in folders)
    return {name: entry for name, entry in tree.items() if name == "." or not name.startswith(inside)}


def within(tree: Tree, folder: str) -> Tree:
    """What lies in this folder, and the folder itself."""
    return tree if folder == "." else {n: e for n, e in tree.items() if n == folder or n.startswith(f"{folder}/")}


def differences(expected: Tree, found: Tree) -> list[str]:
    """What a person wants to read of two trees that should be equal: the first few names that are not."""
    names = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return [f"{name}: {_difference(expected.get(name), found.get(name))}" for name in names[:SHOWN]]


def read_stores(root: Path, stores: Iterable[str]) -> dict[str, Families]:
    """The records of these RocksDB directories, or of the segments in them."""
    return {store: _families(root / store) for store in stores}


def _families(store: Path) -> Families:
    if (store / "CURRENT").is_file():
        return read_families(store)
    segments = sorted(store.iterdir())
    return {f"{each.name}/{name}": records for each in segments for name, records in read_families(each).items()}


def _entry(path: Path) -> Entry:
    status = path.lstat()
    if stat.S_ISREG(status.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    else:
        content = f"-> {path.readlink()}" if path.is_symlink() else "directory"
    return Entry(stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), content, status.st_mtime_ns)


def _difference(expected: Entry | None, found: Entry | None) -> str:
    if expected is None:
        return "should not be there"
    return "is gone" if found is None else f"is {found}, was {expected}"
