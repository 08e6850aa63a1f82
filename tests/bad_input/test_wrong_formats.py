"""A format that is not the store's, and stores that no format describes."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.bad_input.support import Migration, expected_orders
from tests.support import TIMESTAMPED, UNKNOWN_TIMESTAMP, make_families, numbered

FAMILY = "keyValueWithTimestamp"
NOON = (1_763_812_800_000).to_bytes(8, "big")


def half_upgraded(app: Migration) -> dict[bytes, bytes]:
    """One store partition as Kafka Streams upgrades it, key by key, as the application reads them; what it reads."""
    database = app.source / "0_1/rocksdb/orders"
    shutil.rmtree(database)
    old, new = numbered(60, prefix=b"old-"), numbered(40, prefix=b"new-", seed=1)
    upgraded = {key: NOON + value for key, value in new.items()}
    make_families(database, {"default": {**old, min(new): b"written since"}, FAMILY: upgraded})
    return {**{key: UNKNOWN_TIMESTAMP + value for key, value in old.items()}, **upgraded}


def test_a_half_upgraded_store_is_read_as_its_owner_reads_it(app: Migration) -> None:
    expected = half_upgraded(app)
    for task in ("0_0", "0_2"):
        shutil.rmtree(app.source / task)
    app.set("source", format=TIMESTAMPED)
    app.set("target", format=TIMESTAMPED)

    report = app.completes({"0_1/rocksdb/orders": dict(sorted(expected.items()))})

    assert (report["totals"]["records_in"], report["totals"]["shadowed"]) == (100, 1)


def test_the_newest_options_file_counts(app: Migration) -> None:
    old = app.source / "0_1/rocksdb/orders/OPTIONS-000007"
    shutil.copy(old, old.with_name("OPTIONS-000006"))
    set_option(old.with_name("OPTIONS-000006"), "merge_operator", "StringAppendOperator")

    app.completes(expected_orders())


def set_option(file: Path, option: str, value: str) -> None:
    """As RocksDB writes it into its OPTIONS file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    changed = [f"  {option}={value}" if line.startswith(f"  {option}=") else line for line in lines]
    assert changed != lines
    file.write_text("\n".join(changed) + "\n", encoding="utf-8")
