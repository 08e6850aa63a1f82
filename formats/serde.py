"""Serdes: what the payload bytes within a layout mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar

from formats.encoding.headers import Headers
from formats.errors import InvalidEntryError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # of type checkers alone: Python has it since 3.13

    T = TypeVarWithDefault("T", default=Any)
else:
    T = TypeVar("T")


class Serde(Protocol[T]):
    """Payload bytes to an object and back."""

    @property
    def name(self) -> str:
        """The serde's name in a spec."""

    def decode(self, payload: bytes, /) -> T:
        """The object of a payload. Raises EntryError for bytes that are not a payload of this serde."""

    def encode(self, payload: T, /) -> bytes:
        """The payload of an object. Raises EntryError for an object that this serde cannot write."""


class HeaderSerde(Serde, Protocol):
    """A serde whose payloads depend on the record's headers."""

    def decode_with(self, payload: bytes, headers: Headers | None) -> Any:  # noqa: ANN401
        """The object of a payload; `headers`: None where the format carries none."""

    def with_headers(self, headers: Headers | None) -> Headers | None:
        """The headers of a record whose payload this serde wrote."""


def uses_headers(serde: Serde) -> TypeGuard[HeaderSerde]:
    """Whether a serde reads headers; quick, for an `isinstance` of a protocol costs as much as a conversion."""
    return hasattr(serde, "decode_with")


@dataclass(frozen=True, slots=True)
class BytesSerde:
    """The payload as it is."""

    name: str = "bytes"

    def decode(self, payload: bytes) -> bytes:
        return payload

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        if not isinstance(payload, bytes):
            raise InvalidEntryError(f"expected bytes, got {type(payload).__name__}")
        return payload


BYTES = BytesSerde()
