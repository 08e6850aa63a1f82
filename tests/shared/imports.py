"""Stores that are exported, or tables that are written, and imported again."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from formats import Format, Headers, StateRecord, Window
from formats.partitioners import PARTITIONERS
from migrate import RunReport, Spec
from migrate.batch.context import Context
from migrate.batch.importing import pin_table
from migrate.batch.run import run_with
from migrate.spec.spec import parse_spec
from migrate.systems import get_system
from tests.sorting import sorting
from tests.support import make_families, read_families

Records = dict[bytes, bytes]
FORMAT = "kafka-streams.timestamped-key-value"
FAMILY = "keyValueWithTimestamp"
RETENTION, SEGMENT = 100_000_000, 900_000
TIME = pa.timestamp("us", tz="UTC")
TEXT = {part: {"to": {"serde": "string"}} for part in ("key", "value")}


def import_spec(base: Path, **sections: Any) -> Spec:  # noqa: ANN401
    """A new store `orders` in the tasks 0_0 to 0_2 of `base`/new/app; of `sections`, None removes a key."""
    content: dict[str, Any] = {
        "name": "filled",
        "work_dir": "work",
        "target": {"path": "new/app", "store": "orders", "format": FORMAT, "partitions": 3, "subtopology": 0},
        "conversion": {"allow": ["changelog"]},
    }
    for name, section in sections.items():
        merged = {**content.get(name, {}), **section}
        content[name] = {key: each for key, each in merged.items() if each is not None}
    return parse_spec(content, base_dir=base)


def import_here(spec: Spec, table: Path, version: int | None = None) -> RunReport:
    """Import in this process, where nothing but Spark's shuffle is another one."""
    pin_table(Context(spec), table, version)
    return run_with(sorting, Context(spec))


def write_rows(table: Path, columns: Mapping[str, pa.Array], **how: Any) -> Path:  # noqa: ANN401
    write_deltalake(str(table), pa.table(dict(columns)), **how)
    return table


def text_rows(count: int, **changed: list[Any]) -> dict[str, pa.Array]:
    """Rows of FORMAT with text; `changed`: other columns."""
    columns: dict[str, list[Any]] = {
        "key": [f"key-{number:05}" for number in range(count)],
        "value": [f"value {number}" for number in range(count)],
        "timestamp": [number * 1000 for number in range(count)],
    }
    kinds = {"key": pa.string(), "value": pa.string(), "timestamp": TIME}
    return {name: pa.array(each, kinds[name]) for name, each in (columns | changed).items()}


def records_of(known: Format, count: int = 600) -> Records:
    """Records of a format, with times of some segments."""
    rng, found = random.Random(known.id), dict[bytes, bytes]()
    for number in range(count):
        start = rng.randrange(5 * SEGMENT)
        record = StateRecord(
            rng.randbytes(rng.choice((0, 1, 4, 8, 21))) + b"%d" % number,
            rng.randbytes(rng.randrange(40)),
            rng.choice((-1, 0, start)) if "timestamp" in known.carries else None,
            Headers.of(rng.choice(([], [("a", None)], [("a", b"1"), ("b", b"")]))),
            Window(start, start + rng.randrange(SEGMENT) if known.kind == "session" else None, number % 3),
        )
        key, value = known.encode(record)
        found[key] = value
    return found


def spread(known: Format, records: Records, partitions: int) -> list[Records]:
    """The records of each partition, in key order."""
    found: list[Records] = [{} for _ in range(partitions)]
    for key in sorted(records):
        found[PARTITIONERS["murmur2"](known.key_payload(key), partitions)][key] = records[key]
    return found


def databases_of(known: Format, records: Records, store: str) -> dict[str, Records]:
    """The records of each RocksDB directory of a store partition."""
    if not known.is_segmented:
        return {".": records}
    found: dict[str, Records] = {}
    for key, value in records.items():
        start = int.from_bytes(key[known.segment_time], "big") // SEGMENT * SEGMENT
        found.setdefault(f"{store}.{start}", {})[key] = value
    return found


def place(known: Format, application: Path, number: int, first: int = 0, store: str = "orders") -> Path:
    system = get_system(known.system)
    task = system.layout.task_name((first, number))
    assert task is not None
    return application / system.place(task, store, is_segmented=known.is_segmented)


def make_application(known: Format, application: Path, partitions: list[Records]) -> None:
    assert known.column_families is not None
    for number, records in enumerate(partitions):
        folder = place(known, application, number)
        folder.mkdir(parents=True, exist_ok=True)
        for database, mine in databases_of(known, records, "orders").items():
            make_families(folder / database, {known.column_families[0]: mine})


def stored(known: Format, application: Path, partitions: int, first: int = 0) -> list[dict[str, Records]]:
    """What the RocksDB directories of each store partition hold, without empty ones."""
    assert known.column_families is not None
    found = []
    for number in range(partitions):
        folder = place(known, application, number, first)
        names = [each.name for each in folder.iterdir() if each.is_dir()] if known.is_segmented else ["."]
        families = {name: read_families(folder / name)[known.column_families[0]] for name in sorted(names)}
        found.append({name: records for name, records in families.items() if records})
    return found
