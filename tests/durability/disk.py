"""A disk in memory that knows of every byte and of every name whether a power cut could take it away.

Bytes are safe once their file was synced after them; a name is safe once its directory was synced after it was made.
Calls of the recorder are applied one by one, and what a crash may leave at that moment is written out to a real
directory. An exchange of two names is atomic, as journaling file systems have it; nothing else is taken for granted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tests.durability.trace import Call, Op


@dataclass(slots=True, eq=False)
class File:
    """An inode; several names may lead to it."""

    now: bytes = b""
    synced: bytes | None = None
    """As the last sync left it; None: never synced."""
    changed: int = -1
    """When its bytes last changed."""

    @property
    def is_clean(self) -> bool:
        """Nothing of it would be lost; of an empty one there is nothing, such as a LOCK."""
        return (self.synced or b"") == self.now


@dataclass(slots=True, eq=False)
class Folder:
    """A directory."""

    now: dict[str, Node] = field(default_factory=dict)
    synced: dict[str, Node] = field(default_factory=dict)
    changed: int = -1
    exchanged: list[tuple[str, Folder, str]] = field(default_factory=list)
    """Names of this directory that changed places with a name of another one, and neither was synced since."""


Node = File | Folder


class Disk:
    """All that is below one directory."""

    def __init__(self, root: Path) -> None:
        """As it is now on the real disk, all of it safe."""
        self.root = root
        self._tree = _scan(root, {})

    def concerns(self, call: Call) -> bool:
        """Whether it does anything here."""
        return call.op is not Op.EVENT and any(
            f"{path}/".startswith(f"{self.root}/") for path in (call.path, call.other)
        )

    def apply(self, call: Call) -> None:
        """One call."""
        if self.concerns(call):
            _APPLY[call.op](self, call)

    def restart_clock(self) -> None:
        """The calls of another recording, which are numbered anew, follow."""
        for node in _nodes(self._tree):
            node.changed = -1

    def node(self, path: str | Path) -> Node | None:
        """What stands there now."""
        node: Node = self._tree
        for name in self._parts(path):
            if not isinstance(node, Folder) or name not in node.now:
                return None
            node = node.now[name]
        return node

    def faults(self, path: Path) -> list[str]:
        """Why a power cut now could take something of the file or of the tree at `path` away; empty: it cannot."""
        node = self.node(path)
        if node is None:
            return [f"{path} does not exist"]
        parts = self._parts(path)
        above = [self.root.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]
        names = [f"the name of {name} is not synced" for name in above if not self._is_name_safe(name)]
        return names + list(_faults(path, node))

    def is_clean(self, path: Path) -> bool:
        """Whether the file's bytes are safe, whatever becomes of its name."""
        node = self.node(path)
        return isinstance(node, File) and node.is_clean

    def write_to(self, root: Path, cut: Cut, *, others: Mapping[str, Cut] | None = None) -> None:
        """Make `root` what a crash would leave. `others`: what it takes away below these names in `root`."""
        if root.exists():
            shutil.rmtree(root)
        root.mkdir()
        written: dict[int, Path] = {}
        for name, node in cut.names(self._tree).items():
            _write(node, root / name, (others or {}).get(name, cut), written)

    def fingerprint(self, cut: Cut) -> int:
        """Equal for equal outcomes of a crash."""
        return hash(tuple(_outline(self._tree, cut)))

    def _is_name_safe(self, path: Path) -> bool:
        folder = self.node(path.parent)
        assert isinstance(folder, Folder)
        return folder.synced.get(path.name) is folder.now[path.name]

    def _parts(self, path: str | Path) -> tuple[str, ...]:
        return PurePosixPath(path).relative_to(self.root).parts

    def _place(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        node = self.node(folder)
        assert isinstance(node, Folder), f"{folder} is not known"
        return node, name

    def _file(self, path: str) -> File | None:
        """None: removed already, and still open."""
        node = self.node(path)
        assert not isinstance(node, Folder)
        return node

    def _create(self, call: Call) -> None:
        if self.node(call.path) is None:
            self._put(call.path, File(changed=call.ended), call)

    def _make_folder(self, call: Call) -> None:
        self._put(call.path, Folder(changed=call.ended), call)

    def _put(self, path: str, node: Node, call: Call) -> None:
        folder, name = self._place(path)
        folder.now[name] = node
        folder.changed = call.ended

    def _take(self, path: str, call: Call) -> Node:
        folder, name = self._place(path)
        folder.changed = call.ended
        return folder.now.pop(name)

    def _truncate(self, call: Call) -> None:
        if (file := self._file(call.path)) is not None and len(file.now) != call.size:
            file.now = file.now[: call.size].ljust(call.size, b"\0")
            file.changed = call.ended

    def _write(self, call: Call) -> None:
        if (file := self._file(call.path)) is not None:
            at = len(file.now) if call.offset is None else call.offset
            file.now = file.now[:at].ljust(at, b"\0") + call.data + file.now[at + len(call.data) :]
            file.changed = call.ended

    def _copy(self, call: Call) -> None:
        if (file := self._file(call.path)) is not None and call.size:
            source = self._file(call.other)
            assert source is not None, f"{call.other} is not known"
            at = len(file.now) if call.offset is None else call.offset
            file.now += source.now[at : at + call.size]
            file.changed = call.ended

    def _sync(self, call: Call) -> None:
        node = self.node(call.path)
        if node is None or node.changed > call.began:
            return
        if isinstance(node, File):
            node.synced = node.now
            return
        node.synced = dict(node.now)
        for mine, other, name in node.exchanged:
            if other.now.get(name) is not None and node.now.get(mine) is not None:
                other.synced[name] = other.now[name]
        node.exchanged.clear()

    def _rename(self, call: Call) -> None:
        self._put(call.other, self._take(call.path, call), call)

    def _link(self, call: Call) -> None:
        node = self.node(call.path)
        assert node is not None, f"{call.path} is not known"
        self._put(call.other, node, call)

    def _exchange(self, call: Call) -> None:
        (here, mine), (there, other) = self._place(call.path), self._place(call.other)
        here.now[mine], there.now[other] = there.now[other], here.now[mine]
        here.changed = there.changed = call.ended
        here.exchanged.append((mine, there, other))
        there.exchanged.append((other, here, mine))

    def _remove(self, call: Call) -> None:
        self._take(call.path, call)


_APPLY: dict[Op, Callable[[Disk, Call], None]] = {
    Op.CREATE: Disk._create,
    Op.TRUNCATE: Disk._truncate,
    Op.WRITE: Disk._write,
    Op.COPY: Disk._copy,
    Op.SYNC: Disk._sync,
    Op.REMOVE: Disk._remove,
    Op.MAKE_FOLDER: Disk._make_folder,
    Op.RENAME: Disk._rename,
    Op.EXCHANGE: Disk._exchange,
    Op.LINK: Disk._link,
}


def _scan(path: Path, known: dict[tuple[int, int], File]) -> Folder:
    folder = Folder()
    for entry in sorted(path.iterdir()):
        if entry.is_dir():
            folder.now[entry.name] = _scan(entry, known)
        else:
            status = entry.stat()
            inode = (status.st_dev, status.st_ino)
            if inode not in known:
                content = entry.read_bytes()
                known[inode] = File(content, content)
            folder.now[entry.name] = known[inode]
    folder.synced = dict(folder.now)
    return folder


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Folder):
        for child in node.now.values():
            yield from _nodes(child)


def _faults(path: Path, node: Node) -> Iterator[str]:
    if isinstance(node, File):
        if not node.is_clean:
            yield f"{path} has bytes that are not synced"
        return
    for name, child in node.now.items():
        if node.synced.get(name) is not child:
            yield f"the name of {path / name} is not synced"
        yield from _faults(path / name, child)


@dataclass(frozen=True, slots=True)
class Cut:
    """What a crash takes away."""

    name: str
    names: Callable[[Folder], dict[str, Node]]
    content: Callable[[File], bytes]


def _half(file: File) -> bytes:
    """What was synced survives, where only something was added to it."""
    safe = len(file.synced) if file.synced is not None and file.now.startswith(file.synced) else 0
    return file.now[: (safe + len(file.now)) // 2]


def _safe(file: File) -> bytes:
    return file.synced or b""


KILL = Cut("the process is killed", lambda folder: folder.now, lambda file: file.now)
POWER_CUTS = (
    Cut("nothing that is not synced survives", lambda folder: folder.synced, _safe),
    Cut("names survive, bytes do not", lambda folder: folder.now, _safe),
    Cut("names survive, and half of the bytes", lambda folder: folder.now, lambda f: f.now if f.is_clean else _half(f)),
    Cut(
        "names that were removed are gone, new ones are too",
        lambda folder: {name: folder.synced[name] for name in folder.now if name in folder.synced},
        _safe,
    ),
)


def _write(node: Node, path: Path, cut: Cut, written: dict[int, Path]) -> None:
    if isinstance(node, Folder):
        path.mkdir()
        for name, child in cut.names(node).items():
            _write(child, path / name, cut, written)
    elif id(node) in written:
        os.link(written[id(node)], path)
    else:
        path.write_bytes(cut.content(node))
        written[id(node)] = path


def _outline(node: Node, cut: Cut) -> Iterator[object]:
    if isinstance(node, Folder):
        for name, child in sorted(cut.names(node).items()):
            yield name
            yield from _outline(child, cut)
        yield None
    else:
        yield id(node), cut.content(node)
