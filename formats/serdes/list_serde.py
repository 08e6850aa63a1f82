"""`list`: a list as Kafka's ListSerde writes it, each entry by an inner serde.

| what                                  | size | field                                                |
|---------------------------------------|------|------------------------------------------------------|
| strategy                              | 1    | 0x00 entries of one size, 0x01 of any size           |
| entries of one size: null entries     | 4    | how many                                             |
|                                       | 4    | of each: its index, ascending                        |
| entries                               | 4    | how many, null ones too                              |
| of any size: each                     | 4    | its size, or -1: null                                |
| each that is not null                 | rest | the entry, by the inner serde                        |

All numbers are big-endian. Of one size are what Kafka's serializers of numbers and UUIDs write.
Source: org.apache.kafka.common.serialization.{ListSerializer, ListDeserializer}.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any

from formats.errors import EntryError, InvalidEntryError, TruncatedEntryError
from formats.serde import Serde
from formats.serdes.text import SIZE

_INT = Struct(">i")
_ONE_SIZE, _ANY_SIZE = 0, 1


class ListEntries(list[Any]):
    """A decoded list."""

    def lost(self) -> frozenset[str]:
        return frozenset().union(*(each.lost() for each in self if hasattr(each, "lost")))


@dataclass(frozen=True, slots=True)
class ListSerde:
    """Lists of what the inner serde reads, and None."""

    inner: Serde
    name: str = "list"

    @property
    def size(self) -> int | None:
        """The size of each entry; None: any."""
        return SIZE if self.inner.name == "uuid" else getattr(self.inner, "size", None)

    @property
    def losses(self) -> tuple[str, ...]:
        return getattr(self.inner, "losses", ())

    @property
    def schemas(self) -> tuple[Any, ...]:
        """The inner serde's, where it is Avro."""
        return getattr(self.inner, "schemas", ())

    def decode(self, payload: bytes) -> ListEntries:
        """The list. Raises EntryError, with the number of the entry that is wrong."""
        one_size = self.size
        strategy = _ANY_SIZE if one_size is None else _ONE_SIZE
        if payload[:1] != bytes([strategy]):
            kind = "any size" if one_size is None else "one size"
            raise InvalidEntryError(
                f"a list of entries of {kind} begins with {strategy:02x}, not {payload[:1].hex()!r}"
            )
        missing, count, at = self._head(payload)
        found = ListEntries()
        for number in range(count):
            size = one_size
            if size is None:
                size, at = _number(payload, at), at + 4
            if number in missing or size == -1:
                found.append(None)
                continue
            if size < 0 or at + size > len(payload):
                raise TruncatedEntryError(f"the list up to its entry {number}", len(payload), at + max(size, 0))
            found.append(self._entry(number, payload[at : at + size]))
            at += size
        if at != len(payload):
            raise InvalidEntryError(f"the list ends at byte {at}, but {len(payload) - at} bytes follow")
        return found

    def _head(self, payload: bytes) -> tuple[set[int], int, int]:
        """(the null entries that are told first, how many entries there are, where they begin)."""
        nulls, at = list[int](), 1
        if self.size is not None:
            count, at = _count(payload, at)
            nulls = [_number(payload, at + 4 * number) for number in range(count)]
            at += 4 * count
        count, at = _count(payload, at)
        if nulls != sorted({*nulls}) or (nulls and not 0 <= nulls[0] <= nulls[-1] < count):
            raise InvalidEntryError("the null entries of a list are not in order, or not among its entries")
        return {*nulls}, count, at

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        if not isinstance(payload, list | tuple):
            raise InvalidEntryError(f"expected a list, got {type(payload).__name__}")
        is_any = self.size is None
        out = [bytes([_ANY_SIZE if is_any else _ONE_SIZE])]
        if not is_any:
            nulls = [number for number, each in enumerate(payload) if each is None]
            out += map(_INT.pack, (len(nulls), *nulls))
        out.append(_INT.pack(len(payload)))
        for each in payload:
            if each is not None:
                data = self.inner.encode(each)
                out += [_INT.pack(len(data)), data] if is_any else [data]
            elif is_any:
                out.append(_INT.pack(-1))
        return b"".join(out)

    def _entry(self, number: int, data: bytes) -> Any:  # noqa: ANN401
        try:
            return self.inner.decode(data)
        except EntryError as error:
            error.args = (f"entry {number} of the list: {error}",)
            raise


def _number(payload: bytes, at: int) -> int:
    if at + 4 > len(payload):
        raise TruncatedEntryError("the list", len(payload), at + 4)
    number: int = _INT.unpack_from(payload, at)[0]
    return number


def _count(payload: bytes, at: int) -> tuple[int, int]:
    count = _number(payload, at)
    if not 0 <= count <= len(payload):  # also against allocating what a damaged one claims
        raise InvalidEntryError(f"a list that claims {count} entries in {len(payload)} bytes")
    return count, at + 4
