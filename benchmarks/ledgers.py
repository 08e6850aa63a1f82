"""A migration of many chunks as its work_dir shows it, without the store that it would be of."""

from __future__ import annotations

from pathlib import Path

from migrate.batch.chunk.rewrite import chunk_directory
from migrate.batch.ledger.marker import claim
from migrate.batch.ledger.stored_plan import store_plan
from migrate.batch.ledger.table import Ledger
from migrate.model.key_range import KeyRange
from migrate.model.ledger_row import chunk_row
from migrate.model.plan import Chunk, DatabasePlan, FamilyMapping, Plan
from migrate.model.receipt import Receipt, Scanned, Written, attempt_name
from migrate.model.store_partition import StorePartition
from migrate.spec.loading import load_spec

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
_DIGEST = "-".join(["0123456789abcdef"] * 3)
_PARTITION = StorePartition(id="0_0/orders", store="orders", task="0_0", path=Path("0_0/rocksdb/orders"))


def make_migration(folder: Path, chunks: int, chunks_of_commit: int) -> None:
    """`folder`/migration.toml, its plan, and a ledger in which every chunk is committed."""
    (folder / "migration.toml").write_text(_SPEC, encoding="utf-8")
    home = load_spec(folder / "migration.toml").home
    claim(home, folder)
    chunk_directory(home, _PARTITION.id, ".").mkdir(parents=True)
    plan = _plan([_chunk(number, chunks) for number in range(chunks)])
    store_plan(home, plan)
    ledger = Ledger(home, plan.migration_id, _RUN)
    for start in range(0, chunks, chunks_of_commit):
        together = plan.chunks[start : start + chunks_of_commit]
        ledger.commit(*(chunk_row(_receipt(home, chunk)) for chunk in together))


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
        mappings=(FamilyMapping(source="default", target="keyValueWithTimestamp"),),
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


def _receipt(home: Path, chunk: Chunk) -> Receipt:
    """With its file: a receipt without one is none."""
    attempt = attempt_name(_RUN, chunk.number)
    file = chunk_directory(home, chunk.store_partition, chunk.database) / f"{attempt}.0.sst"
    file.write_bytes(b"0" * 100)
    written = Written(
        family="keyValueWithTimestamp",
        file=str(file.relative_to(home)),
        file_size=100,
        records=_RECORDS,
        size=108_000,
        digest=_DIGEST,
        first_key=chunk.keys.start or b"key",
        last_key=_key(chunk.number + 1)[:-1],
    )
    return Receipt(
        migration_id="0" * 32,
        run_id=_RUN,
        attempt=attempt,
        store_partition=chunk.store_partition,
        database=chunk.database,
        number=chunk.number,
        keys=chunk.keys,
        scanned=(Scanned(family="default", records=_RECORDS, size=100_000, digest=_DIGEST),),
        written=(written,),
        dropped=0,
        rejected=0,
        rejects_file=None,
        seconds=0.5,
        engine="portable",
        host="here",
    )
