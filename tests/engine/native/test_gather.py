"""The loop that copies records into buffers, as Python over a memory in which each access is checked."""

import struct
from itertools import pairwise
from random import Random

import pytest

from migrate.engine.native import words
from tests.engine.native.checked_memory import MEMORY
from tests.engine.native.memories import CheckedMemory, checked_modules

RECORDS = [(Random(seed).randbytes(seed % 5), Random(seed).randbytes(seed * 7 % 50)) for seed in range(40)]
WORD = struct.Struct("<q")


class Copied:
    """One call of the loop on the records."""

    def __init__(self, key_room: int, value_room: int, most: int = 100, most_bytes: int = 1 << 40) -> None:
        self.memory = memory = CheckedMemory()
        self._at = 0
        block = memory.buffer("block", bytes(8 * words.WORDS))
        self._block = block
        given = {
            words.SOURCE: 1,
            words.VALID: memory.function(lambda _: int(self._at < len(RECORDS)), 1, 1),
            words.NEXT: memory.function(self._next, 0, 1),
            words.KEY: memory.function(lambda _, __: self._part(0, words.KEY_SIZE), 2, 2),
            words.VALUE: memory.function(lambda _, __: self._part(1, words.VALUE_SIZE), 2, 2),
            words.KEY_ROOM: memory.buffer("keys", bytes(key_room)),
            words.KEY_ROOM_SIZE: key_room,
            words.VALUE_ROOM: memory.buffer("values", bytes(value_room)),
            words.VALUE_ROOM_SIZE: value_room,
            words.KEY_ENDS: memory.buffer("key ends", bytes(8 * most)),
            words.VALUE_ENDS: memory.buffer("value ends", bytes(8 * most)),
            words.MOST_RECORDS: most,
            words.MOST_BYTES: most_bytes,
        }
        for word, number in given.items():
            memory.write_word(block + 8 * word, number)
        self.outcome = checked_modules()["gather"].run(block)
        self.count = self._get(words.READ)
        self.found = [*zip(self._column("keys", "key ends"), self._column("values", "value ends"), strict=True)]

    def _next(self, _: object) -> None:
        self._at += 1

    def _part(self, part: int, size_word: int) -> int:
        content = RECORDS[self._at][part]
        self.memory.write_word(self._block + 8 * size_word, len(content))
        return self.memory.buffer(f"part {part}", content, writable=False)

    def _get(self, word: int) -> int:
        (found,) = WORD.unpack(self.memory.read(self._block + 8 * word, 8))
        return int(found)

    def _column(self, name: str, ends_name: str) -> list[bytes]:
        content, ends = (bytes(MEMORY.found[each][2]) for each in (name, ends_name))
        places = [0, *(end for (end,) in WORD.iter_unpack(ends[: 8 * self.count]))]
        return [content[start:end] for start, end in pairwise(places)]


SIZES = sum(len(key) for key, _ in RECORDS), sum(len(value) for _, value in RECORDS)


def test_rooms_of_just_the_size_are_filled() -> None:
    copied = Copied(*SIZES)
    assert (copied.outcome, copied.found) == (words.ENDED, RECORDS)


@pytest.mark.parametrize(
    "key_room, value_room, full", [(SIZES[0] - 1, SIZES[1], words.KEY_FULL), (99, 0, words.VALUE_FULL)]
)
def test_a_record_without_room_is_left_whole(key_room: int, value_room: int, full: int) -> None:
    copied = Copied(key_room, value_room)
    assert copied.outcome == full
    assert copied.found == RECORDS[: copied.count]
    assert copied.count < len(RECORDS)


@pytest.mark.parametrize("most", [1, 7, 40])
def test_no_more_records_are_copied_than_wanted(most: int) -> None:
    copied = Copied(*SIZES, most)
    assert (copied.outcome, copied.found) == (words.PAUSED if most < len(RECORDS) else words.ENDED, RECORDS[:most])


def test_it_pauses_once_there_are_so_many_bytes() -> None:
    copied = Copied(*SIZES, most_bytes=100)
    assert copied.outcome == words.PAUSED
    assert copied.found == RECORDS[: copied.count]
    size = len(b"".join(map(b"".join, copied.found)))
    assert 100 <= size < 160
