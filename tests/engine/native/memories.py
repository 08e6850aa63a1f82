"""Two memories for the loop, in which a read or a write outside a buffer does not stay unnoticed.

`GuardedMemory` is for the compiled loop: each buffer ends, or begins, at a page that cannot be accessed, so that an
overrun there ends the process by a signal, and on its other side are bytes that must not change. `CheckedMemory` is
for the same source as plain Python, which checks each access.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from migrate.engine.native import gather, hashing, interpreter, loop
from migrate.engine.native.compiled import compiled
from tests.engine.native import checked_memory
from tests.engine.native.checked_memory import MEMORY

_PAGE = mmap.PAGESIZE
_CANARY = b"\x80" * 64
"""Also what a varint that is read too far would take for more of itself."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_RESULTS = {0: None, 1: ctypes.c_ubyte, 2: ctypes.c_int64}
Code = npt.NDArray[np.int64]


class OverwrittenError(Exception):
    """Bytes beside a buffer have changed."""


class Memory(Protocol):
    """Where the block, its buffers and records are, and the loop that runs over them."""

    def buffer(self, name: str, content: bytes | bytearray, *, at_end: bool = True, writable: bool = True) -> int:
        """The address of a buffer of exactly these bytes, in the place of the one of that name."""

    def code(self, words: Code) -> int:
        """The address of a program."""

    def read(self, address: int, size: int) -> bytes:
        """Bytes of a buffer."""

    def write_word(self, address: int, number: int) -> None:
        """Write a word into a buffer."""

    def function(self, called: Callable[..., Any], result: int, arguments: int) -> int:
        """The address of a function; `result`: 0 nothing, 1 a byte, 2 a word."""

    def run(self, block: int) -> int:
        """Run the loop. Raises what says that it left a buffer, or ends by a signal."""


class _Pages:
    """Memory between two pages that cannot be accessed."""

    def __init__(self, size: int) -> None:
        self._size = size
        whole = mmap.mmap(-1, size + 2 * _PAGE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(whole)) + _PAGE
        self._held = whole
        for edge in (self._base - _PAGE, self._base + size):
            if _LIBC.mprotect(edge, _PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self._canary: tuple[int, int] = 0, 0

    def place(self, content: bytes | bytearray, *, at_end: bool) -> int:
        """Put the bytes at one edge, and a canary on their other side."""
        size = len(content)
        address = self._base + self._size - size if at_end else self._base
        room = min(len(_CANARY), self._size - size)
        self._canary = (address - room if at_end else address + size), room
        ctypes.memmove(self._canary[0], _CANARY, room)
        ctypes.memmove(address, bytes(content), size)
        return address

    def check(self) -> None:
        """Raises OverwrittenError."""
        address, size = self._canary
        if ctypes.string_at(address, size) != _CANARY[:size]:
            raise OverwrittenError


class GuardedMemory:
    """For the compiled loop."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, int], _Pages] = {}
        self._held: list[object] = []
        self._loop = compiled()

    def buffer(self, name: str, content: bytes | bytearray, *, at_end: bool = True, writable: bool = True) -> int:
        size = max(_PAGE, 1 << (len(content) + len(_CANARY)).bit_length())
        if (name, size) not in self._pages:
            self._pages[name, size] = _Pages(size)
        return self._pages[name, size].place(content, at_end=at_end)

    def code(self, words: Code) -> int:
        self._held.append(words)
        return int(words.ctypes.data)

    def read(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)

    def write_word(self, address: int, number: int) -> None:
        ctypes.c_int64.from_address(address).value = number

    def function(self, called: Callable[..., Any], result: int, arguments: int) -> int:
        made = ctypes.CFUNCTYPE(_RESULTS[result], *[ctypes.c_int64] * arguments)(called)
        self._held.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    def run(self, block: int) -> int:
        outcome = self._loop(block)
        for pages in self._pages.values():
            pages.check()
        return outcome


class CheckedMemory:
    """For the loop as Python. There is one at a time."""

    def __init__(self) -> None:
        MEMORY.found.clear()
        MEMORY.functions.clear()
        self._next = 1 << 40
        self._loop = checked_modules()["loop"].run

    def buffer(self, name: str, content: bytes | bytearray, *, at_end: bool = True, writable: bool = True) -> int:
        self._next += (1 << 32) + 3
        return MEMORY.put(name, self._next, bytearray(content), writable=writable)

    def code(self, words: Code) -> int:
        return MEMORY.put("code", int(words.ctypes.data), words.view(np.uint8).data, writable=False)

    def read(self, address: int, size: int) -> bytes:
        return bytes(MEMORY.bytes_at(address, size))

    def write_word(self, address: int, number: int) -> None:
        checked_memory.store64(address, number)

    def function(self, called: Callable[..., Any], result: int, arguments: int) -> int:
        number = len(MEMORY.functions) + 1
        MEMORY.functions[number] = called
        return number

    def run(self, block: int) -> int:
        with np.errstate(over="ignore"):  # numbers of 64 bits wrap around, as compiled ones do
            return int(self._loop(block))


def checked_modules() -> dict[str, ModuleType]:
    """The modules of the loops, by name, executed over the checked memory."""
    made: dict[str, ModuleType] = {}
    swaps = {"migrate.engine.native.raw_memory": checked_memory.__name__}
    for module in (hashing, interpreter, loop, gather):
        name = f"{checked_memory.__name__}.{module.__name__.rpartition('.')[2]}"
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        for old, new in swaps.items():
            source = source.replace(f"from {old} import", f"from {new} import")
        copied = ModuleType(name)
        sys.modules[name] = copied
        exec(compile(source, str(module.__file__), "exec"), copied.__dict__)
        swaps[module.__name__] = name
        made[name.rpartition(".")[2]] = copied
    return made
