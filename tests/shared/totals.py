"""A store of two partitions whose values get a field; one record is dropped, one is rejected."""

from collections.abc import Mapping
from pathlib import Path

from formats import StateRecord
from migrate.spec.spec import Spec
from tests.support import KEY_VALUE, TIMESTAMPED, make_spec, make_store

ALLOW = ["changelog", "drop", "unclean-source"]
TASKS = ("0_0", "0_1")
JSON = {"from": {"serde": "json"}, "to": {"serde": "json"}}
TEXT = {"from": {"serde": "string"}, "to": {"serde": "string"}}


def with_totals(record: StateRecord) -> StateRecord | None:
    """The function of the migration."""
    if record.key == "dropped":
        return None
    return StateRecord(record.key, {**record.value, "total": record.value["price"] * record.value["count"]})


def totals_records(number: int) -> dict[bytes, bytes]:
    """The old records of a partition."""
    records = {f"key-{each:03}".encode(): b'{"price":%d,"count":2}' % each for each in range(number, 100, 2)}
    return records | ({b"dropped": b'{"price":1,"count":1}', b"bad": b'{"count":1}'} if number == 0 else {})


def totals_spec(folder: Path, more: Mapping[bytes, bytes] | None = None) -> Spec:
    """The migration; `more`: further records of the first partition."""
    for number, task in enumerate(TASKS):
        records = totals_records(number) | (dict(more or {}) if number == 0 else {})
        make_store(folder / "app" / task / "rocksdb" / "orders", records)
    return make_spec(
        folder,
        folder / "app",
        source_format=KEY_VALUE,
        target_format=TIMESTAMPED,
        source={"store": "orders"},
        target={"path": None},
        conversion={
            "function": with_totals,
            "allow": ALLOW,
            "key": TEXT,
            "value": JSON,
        },
        run={"on_reject": "skip", "max_rejects": 100},
    )
