"""A recorder of system calls: what a process and its children did to files, in order, with every byte.

A call counts from the line on which it returned; `began` is the line on which it was made, so that a sync vouches for
nothing that happened while it ran.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
_LONGEST_WRITE = 1 << 26
_TRACED = (
    "?open,openat,?openat2,?creat,write,pwrite64,writev,?pwritev,?pwritev2,?sendfile,?copy_file_range,?splice,"
    "ftruncate,truncate,?fallocate,fsync,fdatasync,?sync,?syncfs,?rename,renameat,renameat2,?link,linkat,"
    "?unlink,unlinkat,?rmdir,?mkdir,mkdirat,?symlink,symlinkat,mmap,?io_uring_setup"
)


class Op(StrEnum):
    """What happened to a file or to a name."""

    CREATE = "create"
    """Opened with O_CREAT: made, or there already."""
    TRUNCATE = "truncate"
    WRITE = "write"
    COPY = "copy"
    SYNC = "sync"
    RENAME = "rename"
    EXCHANGE = "exchange"
    LINK = "link"
    REMOVE = "remove"
    MAKE_FOLDER = "make folder"
    EVENT = "event"
    """Not of the disk: the traced program said where it is."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call that succeeded. Paths are absolute."""

    op: Op
    path: str
    other: str = ""
    """The new name, of RENAME, EXCHANGE and LINK; where the bytes come from, of COPY."""
    data: bytes = b""
    offset: int | None = None
    """None: at the end."""
    size: int = 0
    began: int = 0
    ended: int = 0


def require_strace() -> None:
    """Skip the calling test where calls cannot be traced, or fail it where live tests are required."""
    reason = _why_not()
    if reason is None:
        return
    if os.environ.get("REQUIRE_LIVE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@cache
def _why_not() -> str | None:
    strace = shutil.which("strace")
    if strace is None:
        return "tests of the order of syncs need strace on the PATH"
    tried = subprocess.run([strace, "-f", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"strace does not work here: {tried.stderr.strip()}"


def record(arguments: Sequence[str], *, log: Path, events: Path) -> list[Call]:
    """Run this Python with `arguments` to its end, which must be a good one.

    What the program writes to the file `events` comes back as calls of the kind EVENT.
    """
    command = ["strace", "-f", "-y", "-s", str(_LONGEST_WRITE), "-o", str(log), "-e", f"trace={_TRACED}"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, sys.executable, *arguments], cwd="/", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    calls = list(parse(log.read_text(encoding="latin-1").splitlines()))
    return [_as_event(call) if call.path == str(events) else call for call in calls]


def _as_event(call: Call) -> Call:
    if call.op is not Op.WRITE:
        return call
    return Call(Op.EVENT, call.data.decode(), began=call.began, ended=call.ended)


def parse(lines: Sequence[str]) -> Iterator[Call]:
    """What strace wrote, call by call, in the order in which they returned; without those that failed."""
    unfinished: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        process, _, text = line.partition(" ")
        text = text.lstrip()
        began = number
        if text.endswith(" <unfinished ...>"):
            unfinished[process] = number, text.removesuffix(" <unfinished ...>")
            continue
        if (resumed := re.match(r"<\.\.\. \w+ resumed>", text)) is not None:
            began, beginning = unfinished.pop(process)
            text = beginning + text[resumed.end() :]
        if (found := _CALL.fullmatch(text)) is None:
            continue
        returned = int(found["result"], 0)
        if returned != -1 and (make := _KINDS.get(found["name"])) is not None:
            yield from make(_Traced(found["name"], found["arguments"], returned, found["rest"], began, number))


_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d+|0x[0-9a-f]+)(?P<rest>.*)", re.DOTALL)
_TOKEN = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"(?P<cut>\.\.\.)?|(?:AT_FDCWD|-?\d+)<(?P<place>[^>]*)>(?:\(deleted\))?')


@dataclass(frozen=True, slots=True)
class _Traced:
    """One line of strace, taken apart."""

    name: str
    arguments: str
    returned: int
    rest: str
    began: int
    ended: int

    @property
    def places(self) -> list[str]:
        """The files that are named by descriptors."""
        return [found["place"] for found in _TOKEN.finditer(self.arguments) if found["place"] is not None]

    @property
    def data(self) -> bytes:
        """What was written."""
        texts = [found for found in _TOKEN.finditer(self.arguments) if found["text"] is not None]
        assert not any(found["cut"] for found in texts), f"strace cut a {self.name} short"
        return b"".join(_unescape(found["text"]) for found in texts)[: self.returned]

    @property
    def paths(self) -> list[str]:
        """Named by text, each below the directory whose descriptor precedes it."""
        found, folder = [], ""
        for token in _TOKEN.finditer(self.arguments):
            if token["place"] is not None:
                folder = token["place"]
            else:
                found.append(os.path.normpath(os.path.join(folder, _unescape(token["text"]).decode())))  # noqa: PTH118
                assert found[-1].startswith("/"), f"{self.name} of a path that is not absolute: {found[-1]}"
        return found

    def number(self, position: int) -> int:
        """The argument at this position; not for calls with text in front of it."""
        return int(self.arguments.split(", ")[position], 0)

    def call(
        self, op: Op, path: str, *, other: str = "", data: bytes = b"", offset: int | None = None, size: int = 0
    ) -> Call:
        return Call(op, path, other, data, offset, size, self.began, self.ended)


def _unescape(text: str) -> bytes:
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


_Calls = Iterator[Call]


def _open(line: _Traced) -> _Calls:
    path = line.rest.strip()[1:-1]  # the descriptor's own, to which symbolic links have led
    if "O_CREAT" in line.arguments or line.name == "creat":
        yield line.call(Op.CREATE, path)
    if "O_TRUNC" in line.arguments or line.name == "creat":
        yield line.call(Op.TRUNCATE, path)


def _write(line: _Traced) -> _Calls:
    yield line.call(Op.WRITE, line.places[0], data=line.data)


def _write_at(line: _Traced) -> _Calls:
    offset = line.arguments.rpartition(", ")[2]
    yield line.call(Op.WRITE, line.places[0], data=line.data, offset=int(offset))


def _send(line: _Traced) -> _Calls:
    out, source = line.places
    offset = re.search(r", \[(\d+)\]", line.arguments)
    yield line.call(Op.COPY, out, other=source, offset=int(offset[1]) if offset else None, size=line.returned)


def _copy_range(line: _Traced) -> _Calls:
    source, out = line.places
    yield line.call(Op.COPY, out, other=source, size=line.returned)


def _truncate(line: _Traced) -> _Calls:
    path = line.places[0] if line.name == "ftruncate" else line.paths[0]
    yield line.call(Op.TRUNCATE, path, size=int(line.arguments.rpartition(", ")[2]))


def _allocate(line: _Traced) -> _Calls:
    if "FALLOC_FL_KEEP_SIZE" not in line.arguments:
        raise ValueError(f"a way to write that is not followed: {line.name}({line.arguments})")
    yield from ()


def _sync(line: _Traced) -> _Calls:
    yield line.call(Op.SYNC, line.places[0])


def _rename(line: _Traced) -> _Calls:
    old, new = line.paths
    yield line.call(Op.EXCHANGE if "RENAME_EXCHANGE" in line.arguments else Op.RENAME, old, other=new)


def _link(line: _Traced) -> _Calls:
    old, new = line.paths
    yield line.call(Op.LINK, old, other=new)


def _remove(line: _Traced) -> _Calls:
    yield line.call(Op.REMOVE, line.paths[0])


def _make_folder(line: _Traced) -> _Calls:
    yield line.call(Op.MAKE_FOLDER, line.paths[0])


def _map(line: _Traced) -> _Calls:
    """Bytes that are written through memory are seen by no tracer of calls."""
    if {"PROT_WRITE", "MAP_SHARED"} <= set(re.findall(r"\w+", line.arguments)) and line.places:
        raise ValueError(f"a file that is written through memory: {line.arguments}")
    yield from ()


def _unknown(line: _Traced) -> _Calls:
    raise ValueError(f"a way to write or to sync that is not followed: {line.name}({line.arguments})")


_KINDS: dict[str, Callable[[_Traced], _Calls]] = {
    **dict.fromkeys(("open", "openat", "openat2", "creat"), _open),
    **dict.fromkeys(("write", "writev"), _write),
    "pwrite64": _write_at,
    "sendfile": _send,
    "copy_file_range": _copy_range,
    **dict.fromkeys(("ftruncate", "truncate"), _truncate),
    "fallocate": _allocate,
    **dict.fromkeys(("fsync", "fdatasync"), _sync),
    **dict.fromkeys(("rename", "renameat", "renameat2"), _rename),
    **dict.fromkeys(("link", "linkat"), _link),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), _remove),
    **dict.fromkeys(("mkdir", "mkdirat"), _make_folder),
    "mmap": _map,
    **dict.fromkeys(("pwritev", "pwritev2", "splice", "sync", "syncfs", "io_uring_setup"), _unknown),
}
