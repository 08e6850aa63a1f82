"""The state of Quix Streams: what `State` keeps, all in the column family `default`.

| part          | offset | size | field                                                                               |
|---------------|--------|------|-------------------------------------------------------------------------------------|
| key           | 0      | rest | key of the message, `|`, then the name in the state: JSON, or bytes as they are      |
| value         | 0      | rest | value, as JSON, or bytes as they are                                                |
| expiring value| 0      | 8    | when it expires: unsigned big-endian milliseconds of event time; all ff: never       |
| expiring value| 8      | rest | value, as before                                                                    |

Values have the time from the first `set(..., ttl=...)` of a store partition on; Quix Streams puts it before those that
it finds there, too. Beside the records is its own:

| column family               | holds                                                                                 |
|-----------------------------|---------------------------------------------------------------------------------------|
| `__metadata__`              | `__changelog_offset__`: offset of the last changelog record that is in here, 64-bit    |
|                             | big-endian; `__ttl_...`: whether values have the time, and the highest event time     |
| `__ttl_index__`             | an entry for each value that expires: its time, then its key                          |
| `__ttl_system__`            | that all values have the time; this family is in the changelog, too                   |
| `__ttl_backfill_...__`, ... | how far that is, while it is done                                                     |

The changelog holds the same keys and values, with headers: `__column_family__`; `__ttl_stamped__`, 01, where values
have the time; `__processed_tp_offsets__`, JSON, by which recovery leaves out what was never committed, or null. A null
value deletes the key.

Source: quixstreams.state.base.transaction, quixstreams.state.serialization, quixstreams.state.metadata,
quixstreams.state.recovery, quixstreams.state.rocksdb.partition, metadata, ttl_codec.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from formats.errors import InvalidEntryError, TruncatedEntryError
from formats.format import Format
from formats.layout import EXPIRY, PAYLOAD_FIELD, Carried, Field

METADATA, TTL_INDEX, TTL_SYSTEM = "__metadata__", "__ttl_index__", "__ttl_system__"
TTL_UNFINISHED = ("__ttl_backfill_pending__", "__ttl_backfill_stamped__", "__ttl_adopt_backup__")
OFFSET_KEY = b"__changelog_offset__"
_TIME_BYTES = 8
_NEVER = b"\xff" * _TIME_BYTES
_PREFIXES = (b"\0", _NEVER)
"""Of times until the year 2285418, and of what never expires: text does not begin like that."""


@dataclass(frozen=True, slots=True)
class ExpiringValue:
    """time | value"""

    fields: tuple[Field, ...] = (Field(EXPIRY, _TIME_BYTES, prefixes=_PREFIXES), PAYLOAD_FIELD)

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        if len(data) < _TIME_BYTES:
            raise TruncatedEntryError("expiring value", len(data), _TIME_BYTES)
        time, payload = data[:_TIME_BYTES], data[_TIME_BYTES:]
        if not time.startswith(_PREFIXES):
            raise InvalidEntryError(f"the value begins with {time.hex()}, which is no time to expire at")
        return payload, {EXPIRY: None if time == _NEVER else int.from_bytes(time, "big")}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        expires_ms = carried.get(EXPIRY)
        if expires_ms is None:
            return _NEVER + payload
        if not 0 <= expires_ms < 1 << 56:
            raise InvalidEntryError(f"{expires_ms!r} is no time to expire at")
        return int(expires_ms).to_bytes(_TIME_BYTES, "big") + payload


EXPIRING = ExpiringValue()
_quix_format = partial(
    Format,
    column_families=("default",),
    position_keys=(OFFSET_KEY,),
    has_changelog=True,
    family_header="__column_family__",
    keeps_keys_in_tasks=True,
)
KEY_VALUE = _quix_format(
    id="quix.key-value", summary="Quix Streams state: key -> value", metadata_families=(METADATA, TTL_UNFINISHED[0])
)
TTL_KEY_VALUE = _quix_format(
    id="quix.ttl-key-value",
    summary="Quix Streams state with a TTL: key -> expiry, value",
    value_layout=EXPIRING,
    changelog_layout=EXPIRING,
    metadata_families=(METADATA, TTL_INDEX, TTL_SYSTEM, *TTL_UNFINISHED),
    constant_headers=(("__ttl_stamped__", b"\x01"),),
)
