"""Small plans, chunks and receipts for tests that need values and no store."""

from pathlib import Path

from migrate.batch.chunk.rewrite_chunk import RewriteTask, rewrite_chunk
from migrate.engine.chunk_source import Inputs
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk, DatabasePlan, FamilyMapping, Plan
from migrate.model.receipt import Receipt, Scanned, Written
from migrate.model.store_partition import StorePartition
from migrate.spec.conversion_ref import ConversionRef
from tests.support import RAW

PARTITION = StorePartition(id="0_0/orders", store="orders", task="0_0", path=Path("0_0/rocksdb/orders"))


def chunk(number: int = 0, start: bytes | None = None, end: bytes | None = None, *, partition: str = "db") -> Chunk:
    return Chunk(
        store_partition=partition, database=".", number=number, keys=KeyRange(start=start, end=end), estimated_bytes=100
    )


def written(records: int = 1, *, file: str | None = None, first: bytes | None = None) -> Written:
    return Written(
        family="default",
        file=file,
        file_size=0,
        records=records,
        size=10,
        digest="1-2-3",
        first_key=first,
        last_key=first,
    )


def receipt(
    start: bytes | None = None,
    end: bytes | None = None,
    *,
    number: int = 0,
    partition: str = "db",
    outputs: tuple[Written, ...] | None = None,
    rejects_file: str | None = None,
) -> Receipt:
    return Receipt(
        migration_id="m",
        run_id="r",
        attempt=f"{number:06d}-abc",
        store_partition=partition,
        database=".",
        number=number,
        keys=KeyRange(start=start, end=end),
        scanned=(Scanned(family="default", records=3, size=30, digest="4-5-6"),),
        written=outputs if outputs is not None else (written(),),
        dropped=1,
        entries_dropped=1,
        rejected=1,
        rejects_file=rejects_file,
        seconds=0.5,
        engine="portable",
        host="here",
    )


def plan(*chunks: Chunk, revision: int = 1) -> Plan:
    return Plan(
        migration_id="m",
        revision=revision,
        identity={"[source]": "s"},
        chunk_size=100,
        program=None,
        program_fingerprint=None,
        warnings=("careful",),
        store_partitions=(PARTITION,),
        databases=tuple(
            DatabasePlan(
                store_partition=partition,
                database=".",
                mappings=(FamilyMapping(source="default", target="default"),),
                carried_families=(),
                data_bytes=100,
            )
            for partition in dict.fromkeys([each.store_partition for each in chunks] or [PARTITION.id])
        ),
        chunks=chunks,
    )


def rewrite_task(home: Path, store: Path, keys: Chunk, ref: ConversionRef | None = None) -> RewriteTask:
    """A task over an existing store."""
    return RewriteTask(
        home=str(home),
        source=Inputs((str(store),)),
        migration_id="m",
        run_id="r",
        chunk=keys,
        mappings=(FamilyMapping(source="default", target="default"),),
        conversion=ref or ConversionRef(RAW, RAW),
    )


def rewrite(home: Path, store: Path, keys: Chunk, ref: ConversionRef | None = None) -> Receipt:
    """One chunk of a store, rewritten."""
    return rewrite_chunk(rewrite_task(home, store, keys, ref))
