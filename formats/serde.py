"""Serdes: what the payload bytes within a layout mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

from formats.encoding.headers import Headers
from formats.errors import InvalidEntryError


class Serde(Protocol):
    """Payload bytes to an object and back."""

    @property
    def name(self) -> str:
        """What a spec calls it."""
        ...

    def decode(self, payload: bytes) -> Any:  # noqa: ANN401 - the type is the serde's own
        """Raises EntryError for bytes that are not a payload of this serde."""
        ...

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        """Raises EntryError for an object that this serde cannot write."""
        ...


@runtime_checkable
class HeaderSerde(Serde, Protocol):
    """One whose payloads are told by the record's headers."""

    def decode_with(self, payload: bytes, headers: Headers | None) -> Any:  # noqa: ANN401
        """As `decode`; `headers`: None where the format carries none."""
        ...

    def with_headers(self, headers: Headers | None) -> Headers | None:
        """Those that a record must have whose payload this serde wrote."""
        ...


def uses_headers(serde: Serde) -> TypeGuard[HeaderSerde]:
    """Asked for each record: a protocol that is checked at run time takes as long as the rest of a conversion."""
    return hasattr(serde, "decode_with")


@dataclass(frozen=True, slots=True)
class BytesSerde:
    """The payload as it is."""

    name: str = "bytes"

    def decode(self, payload: bytes) -> bytes:
        """As it is."""
        return payload

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        """As it is. Raises InvalidEntryError for anything but bytes."""
        if not isinstance(payload, bytes):
            raise InvalidEntryError(f"expected bytes, got {type(payload).__name__}")
        return payload


BYTES = BytesSerde()
