"""A migration of many chunks as its work_dir shows it, without the store that it would be of."""

from __future__ import annotations

from pathlib import Path

from migrate.batch.chunk.rewrite_chunk import chunk_directory
from migrate.batch.home import claim, store_plan
from migrate.batch.ledger.table import Ledger
from migrate.model.key_range import KeyRange
from migrate.model.ledger_row import chunk_row
from migrate.model.plan import Chunk, DatabasePlan, FamilyMapping, Plan
from migrate.model.receipt import Receipt, Scanned, Written, attempt_name
from migrate.model.store_partition import StorePartition
from migrate.spec.spec import load_spec

_SPEC = """
name = "many"
work_dir = "work"
[source]
format = "kafka-streams.key-value"
path = "state"
store = "orders"
[target]
format = "kafka-streams.timestamped-key-value"
"""
_RUN = "0123456789ab"
_RECORDS = 1000
_MAPPING = FamilyMapping(source="default", target="keyValueWithTimestamp")
_DIGEST = "-".join(["0123456789abcdef"] * 3)
_PARTITION = StorePartition(id="0_0/orders", store="orders", task="0_0", path=Path("0_0/rocksdb/orders"))


def make_migration(folder: Path, chunks: int, chunks_of_commit: int) -> None:
    """`folder`/migration.toml, its plan, and a ledger in which every chunk is committed."""
    (folder / "migration.toml").write_text(_SPEC, encoding="utf-8")
    home = load_spec(folder / "migration.toml").home
    claim(home, folder)
    plan = _plan([_chunk(number, chunks) for number in range(chunks)])
    store_plan(home, plan)
    ledger = Ledger(home, plan.migration_id, _RUN)
    for start in range(0, chunks, chunks_of_commit):
        together = plan.chunks[start : start + chunks_of_commit]
        receipts = (
            make_receipt(home, plan.migration_id, _RUN, chunk, _MAPPING, records=_RECORDS, content=b"0" * 100)
            for chunk in together
        )
        ledger.commit(*map(chunk_row, receipts))


def _chunk(number: int, chunks: int) -> Chunk:
    start = None if number == 0 else _key(number)
    end = None if number == chunks - 1 else _key(number + 1)
    keys = KeyRange(start=start, end=end)
    return Chunk(store_partition=_PARTITION.id, database=".", number=number, keys=keys, estimated_bytes=100_000)


def _key(number: int) -> bytes:
    return b"key-%010d" % (number * _RECORDS)


def _plan(chunks: list[Chunk]) -> Plan:
    database = DatabasePlan(
        store_partition=_PARTITION.id,
        database=".",
        mappings=(_MAPPING,),
        carried_families=(),
        data_bytes=sum(chunk.estimated_bytes for chunk in chunks),
    )
    return Plan(
        migration_id="0" * 32,
        revision=1,
        identity={"[source]": "0" * 32},
        chunk_size=100_000,
        program=None,
        program_fingerprint=None,
        warnings=(),
        store_partitions=(_PARTITION,),
        databases=(database,),
        chunks=tuple(chunks),
    )


def make_receipt(
    home: Path, migration_id: str, run_id: str, chunk: Chunk, mapping: FamilyMapping, *, records: int, content: bytes
) -> Receipt:
    """Of a chunk that nobody has rewritten. With its file: a receipt without one is none."""
    attempt = attempt_name(run_id, chunk.number)
    folder = chunk_directory(home, chunk.store_partition, chunk.database)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{attempt}.0.sst"
    file.write_bytes(content)
    written = Written(
        family=mapping.target,
        file=str(file.relative_to(home)),
        file_size=len(content),
        records=records,
        size=chunk.estimated_bytes,
        digest=_DIGEST,
        first_key=chunk.keys.start or b"k",
        last_key=chunk.keys.end or b"l",
    )
    return Receipt(
        migration_id=migration_id,
        run_id=run_id,
        attempt=attempt,
        store_partition=chunk.store_partition,
        database=chunk.database,
        number=chunk.number,
        keys=chunk.keys,
        scanned=(Scanned(family=mapping.source, records=records, size=chunk.estimated_bytes, digest=_DIGEST),),
        written=(written,),
        dropped=0,
        entries_dropped=0,
        rejected=0,
        rejects_file=None,
        seconds=0.5,
        engine="canned",
        host="here",
    )
