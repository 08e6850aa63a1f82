"""Feeds records of any bytes to the loop, from buffers that are as long as each of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from formats.program import Operation
from migrate.engine.native import words as loop
from migrate.engine.native.byte_code import byte_code
from migrate.engine.native.passes import STACK_WORDS
from tests.engine.native.memories import Memory

_ROOMS = {
    loop.KEY_FULL: (loop.KEY_ROOM, loop.KEY_ROOM_SIZE),
    loop.VALUE_FULL: (loop.VALUE_ROOM, loop.VALUE_ROOM_SIZE),
    loop.LAST_FULL: (loop.LAST_KEY, loop.LAST_KEY_ROOM),
}
_EMPTY = struct.pack(f"<{loop.WORDS}q", *[0] * loop.WORDS)


@dataclass(slots=True)
class Feeding:
    """Converts records by the loop."""

    memory: Memory
    random: Random
    is_key: bool = False
    """Whether the program is that of the keys."""
    stack_words: int = STACK_WORDS
    states: bytes = b""
    """Of the digests of what is read; afterwards, as they are then."""
    _block: int = 0
    _records: Sequence[bytes] = ()
    _at: int = 0
    _made: list[bytes | None] = field(default_factory=list)
    _functions: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        function = self.memory.function
        self._functions = {
            loop.VALID: function(lambda _: int(self._at < len(self._records)), 1, 1),
            loop.NEXT: function(self._next, 0, 1),
            loop.KEY: function(lambda _, __: self._part("key", loop.KEY_SIZE), 2, 2),
            loop.VALUE: function(lambda _, __: self._part("value", loop.VALUE_SIZE), 2, 2),
            loop.PUT: function(self._put, 0, 6),
        }

    def __call__(self, operations: tuple[Operation, ...], records: Sequence[bytes]) -> list[bytes | None]:
        """The new form of each; None: the loop rejects it."""
        self._records, self._at, self._made = records, 0, []
        self._prepare(operations)
        while (outcome := self.memory.run(self._block)) != loop.ENDED:
            if outcome == loop.JUDGE:
                self._made.append(None)
                self._set(loop.TURN, loop.LEAVE_OUT)
            else:
                size = self._get(_ROOMS[outcome][1])
                assert size < 1 << 26, "a record of some hundred bytes has become a large one"
                self._make_room(outcome, size + self.random.randint(1, size + 8))
        if self.states:
            self.states = self.memory.read(self._get(loop.SCANNED), len(self.states))
        return self._made

    def _prepare(self, operations: tuple[Operation, ...]) -> None:
        self._block = self.memory.buffer("block", _EMPTY)
        for word, address in self._functions.items():
            self._set(word, address)
        code = byte_code(operations)
        if code is not None:
            self._set(loop.KEY_PROGRAM if self.is_key else loop.VALUE_PROGRAM, self.memory.code(code))
        stack = self.memory.buffer("stack", bytes(8 * self.stack_words), at_end=self.random.random() < 0.5)
        self._set(loop.STACK, stack)
        self._set(loop.STACK_TOP, stack + 8 * self.stack_words)
        for word in (loop.SOURCE, loop.WRITER, loop.HAS_BEGUN):
            self._set(word, 1)
        for word in (loop.MOST_RECORDS, loop.MOST_BYTES):
            self._set(word, 1 << 62)
        for outcome in _ROOMS:
            self._make_room(outcome, self.random.randrange(64))
        if self.states:
            self._set(loop.SCANNED, self.memory.buffer("states", self.states))

    def _make_room(self, outcome: int, size: int) -> None:
        word, size_word = _ROOMS[outcome]
        self._set(word, self.memory.buffer(str(word), bytearray(size), at_end=self.random.random() < 0.7))
        self._set(size_word, size)

    def _next(self, _: Any) -> None:  # noqa: ANN401 - a word of the loop's
        self._at += 1

    def _part(self, name: str, size_word: int) -> int:
        content = self._records[self._at] if (name == "key") is self.is_key else b""
        self._set(size_word, len(content))
        return self.memory.buffer(name, content, at_end=self._at % 2 == 0, writable=False)

    def _put(self, _: Any, key: int, key_size: int, value: int, value_size: int, __: Any) -> None:  # noqa: ANN401
        made = (key, key_size) if self.is_key else (value, value_size)
        self._made.append(self.memory.read(*map(int, made)))

    def _set(self, word: int, number: int) -> None:
        self.memory.write_word(self._block + 8 * word, number)

    def _get(self, word: int) -> int:
        found: int
        (found,) = struct.unpack("<q", self.memory.read(self._block + 8 * word, 8))
        return found
