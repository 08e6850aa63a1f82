"""Keys whose serde reads the entry's headers, as that of a schema's id does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from formats import Headers
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.views.view_types import QueryableStoreTypes as Types
from tests.shared.windowed import WITH_HEADERS, session_key, window_key
from tests.support import make_families

HEADERS = Headers.of([("h", b"x")])
BEFORE = b"\x0a" + HEADERS.encoded
VALUE = BEFORE + bytes(8) + b"v"
STORES: dict[str, tuple[Any, str, str, bytes, bytes]] = {
    "key-value": (Types.key_value, "0_0/rocksdb/win", WITH_HEADERS, b"k", VALUE),
    "window": (Types.window, "0_0/win/win.0", WITH_HEADERS, window_key(b"k", 5), VALUE),
    "session": (Types.session, "0_0/win/win.0", "sessionKeyValueWithHeaders", session_key(b"k", 5, 6), BEFORE + b"v"),
}


@dataclass(frozen=True)
class KeyAndHeaders:
    """The payload and the headers that it was read with."""

    name: str = "key-and-headers"

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        return bytes(payload)

    def decode(self, payload: bytes) -> object:
        raise AssertionError("read without headers")

    def decode_with(self, payload: bytes, headers: Headers | None) -> object:
        return payload, headers

    def with_headers(self, headers: Headers | None) -> Headers | None:
        return headers


@pytest.mark.parametrize("kind", STORES)
def test_a_key_is_read_with_the_headers_of_its_entry(tmp_path: Path, kind: str) -> None:
    type_of_store, place, family, key, value = STORES[kind]
    make_families(tmp_path / place, {family: {key: value}})
    definition = StoreDefinition(f"kafka-streams.headers-{kind}", key=KeyAndHeaders())
    view = QueryableStores.of_directory(tmp_path, {"win": definition}).store("win", type_of_store())
    ((found, read),) = view.all()
    assert (found if kind == "key-value" else found.key) == (b"k", HEADERS)
    assert read == b"v"
