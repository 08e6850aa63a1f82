"""Handmade reports: one without problems, and one with all of them."""

import random
from pathlib import Path

from migrate.batch.preflight.check import CheckReport
from migrate.dry_run.dry_run_report import (
    BeforeAfter,
    ChangelogPosition,
    Cost,
    DatabaseInventory,
    DryRunReport,
    FamilyInventory,
    Inventory,
    SampleConversion,
    Sizes,
    Verdict,
)
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk
from migrate.model.preview import Shown
from tests.dry_run.support import Planned

MIB = 2**20
NOON = 1768478400000  # 2026-01-15 12:00:00 UTC


def shown(data: bytes, text: str | None = None) -> Shown:
    """As the dry run shows a key or a value."""
    readable = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)
    dots = "..." if len(data) > 256 else ""
    return Shown(size=len(data), hex=data[:256].hex() + dots, text=readable if text is None else text)


def sizes(*shares: float, first: int = 8) -> Sizes:
    """Buckets from `first` on, each twice the one before."""
    buckets = tuple((first << number, share) for number, share in enumerate(shares))
    p50, p99 = (next(at for at in range(len(shares)) if sum(shares[: at + 1]) >= part) for part in (0.5, 0.99))
    return Sizes(p50=buckets[p50][0] - 3, p99=buckets[p99][0] - 3, largest=buckets[-1][0] - 3, buckets=buckets)


def planned(partitions: int, chunks: int, *, seed: int = 1, skew: float = 0.0) -> tuple[Chunk, ...]:
    """So many chunks in each of so many store partitions; with a skew, ever fewer."""
    numbers = random.Random(seed)
    made = []
    for task in range(partitions):
        count = max(1, round(chunks * (1 - skew) ** task))
        bounds = [None, *(f"customer-{at:07}".encode() for at in range(1, count)), None]
        for number in range(count):
            keys = KeyRange(start=bounds[number], end=bounds[number + 1])
            extent = int(256 * MIB * numbers.uniform(0.7, 1.1))
            made.append(
                Chunk(
                    store_partition=f"0_{task}/orders", database=".", number=number, keys=keys, estimated_bytes=extent
                )
            )
    return tuple(made)


def database(task: int) -> DatabaseInventory:
    records = 1_930_400 + 137 * task
    return DatabaseInventory(
        store_partition=f"0_{task}/orders",
        database=".",
        path=Path(f"/srv/state/orders-app/0_{task}/rocksdb/orders"),
        families=(
            FamilyInventory(
                name="default",
                role="records",
                records=records,
                exact=False,
                at_least=records - 4000,
                at_most=records + 1200,
            ),
            FamilyInventory(
                name="keyValueWithTimestamp",
                role="other",
                records=0,
                exact=True,
                at_least=0,
                at_most=0,
                entries=("empty: made by the owner's next version",),
            ),
        ),
        size=612 * MIB,
        record_bytes=1480 * MIB,
        sst_files=11,
        wal_bytes=0 if task else 3 * MIB,
        table_formats=(5,),
        compressions=("none", "lz4") if task == 2 else ("lz4",),
        rocksdb_version="9.7.3",
        owner="Kafka Streams 4.0 or newer",
        newest_file_ms=NOON - 90_000 - 1000 * task,
        positions=(
            ChangelogPosition(
                topic="orders-app-orders-changelog",
                partition=task,
                offset=48_120_311 + task,
                position=48_120_312 + task,
                where=f"0_{task}/.checkpoint",
            ),
        ),
    )


def found(partitions: int = 4) -> Inventory:
    """What lies in so many store partitions."""
    databases = tuple(database(task) for task in range(partitions))
    records = sum(part.families[0].records for part in databases)
    return Inventory(
        databases=databases,
        store_partitions=partitions,
        records=records,
        exact=False,
        at_least=records - 4000 * partitions,
        at_most=records + 1200 * partitions,
        size=sum(part.size for part in databases),
        record_bytes=sum(part.record_bytes for part in databases),
        key_sizes=sizes(0.02, 0.91, 0.068, 0.002),
        value_sizes=sizes(0.004, 0.02, 0.09, 0.31, 0.39, 0.14, 0.04, 0.005, 0.001, first=32),
    )


def example(number: int) -> BeforeAfter:
    """A key-value record that gets a timestamp."""
    value = f'{{"order":{number},"total":"129.90","currency":"EUR","lines":[1,4,9]}}'.encode()
    key = shown(f"customer-{number:07}".encode())
    return BeforeAfter(
        store_partition=f"0_{number % 4}/orders",
        key=key,
        value=shown(value),
        new_key=key,
        new_value=shown(b"\xff" * 8 + value),
        fields=(("timestamp", "-1 = unknown"),),
    )


def tried() -> SampleConversion:
    """A sample that went well."""
    return SampleConversion(
        records=40_000,
        is_full=False,
        seed=7,
        store_partitions_read=4,
        sampled=40_000,
        decoded=40_000,
        converted=40_000,
        rejected=0,
        dropped=0,
        unchanged=0,
        rejects=(),
        look_alikes=(),
        examples=(example(17), example(40_218), example(1_203_544)),
        collisions=(),
        colliding_keys=0,
        out_of_order=None,
        losses=(),
        losses_in_words=(),
        both_paths=40_000,
        differences=(),
        program="key:   copy all\nvalue: insert ffffffffffffffff\n       copy the rest",
        key_sizes=sizes(0.02, 0.91, 0.068, 0.002),
        value_sizes=sizes(0.002, 0.017, 0.08, 0.30, 0.41, 0.15, 0.035, 0.005, 0.001, first=32),
    )


def cost(chunks: tuple[Chunk, ...]) -> Cost:
    """Of these chunks, four at a time."""
    extents = sorted(chunk.estimated_bytes for chunk in chunks)
    return Cost(
        chunks=chunks,
        chunk_size=256 * MIB,
        median_chunk=extents[len(extents) // 2],
        biggest_chunk=extents[-1],
        chunks_done=0,
        slots=4,
        measured_records=40_000,
        records_per_second=1_140_000.0,
        verified_per_second=1_710_000.0,
        rewrite_seconds=sum(extents) / MIB / 180,
        verify_seconds=sum(extents) / MIB / 260,
        other_seconds=12.0,
        total_seconds=sum(extents) / MIB / 180 + sum(extents) / MIB / 260 + 12,
        downtime_seconds=8.4,
        downtime="the snapshot of the last instant, and the exchange of directories",
        new_bytes=2_660 * MIB,
        copied_bytes=3 * MIB,
        peak_bytes=5_380 * MIB,
        required_bytes=7_104 * MIB,
        free_bytes=412 * 1024 * MIB,
        worker_bytes=310 * MIB,
        driver_bytes=160 * MIB,
        recommended_chunk_size=256 * MIB,
        recommended_because="about 8 chunks for each slot, so that the slots end together",
    )


def check(
    name: str, claim: str, outcome: str = "ok", detail: str = "", *, fix: str = "", exit_code: int = 0
) -> CheckReport:
    return CheckReport.model_validate(
        {"name": name, "claim": claim, "outcome": outcome, "detail": detail, "fix": fix, "exit_code": exit_code}
    )


GOOD_CHECKS = (
    check("spec.valid", "the spec can be understood", detail="orders.toml"),
    check("source.exists", "the stores are there", detail="4 store partitions of orders"),
    check("source.format", "the records match the spec", detail="40,000 of 40,000 sampled records decode"),
    check(
        "source.stopped",
        "the application is stopped",
        "waiting",
        "process 4711 holds 0_0/rocksdb/orders/LOCK",
        fix="stop the application, then run; a dry run does not need it",
    ),
    check("work_dir.space", "there is room in the work directory", detail="412 GiB free, 6.9 GiB wanted"),
    check("target.table_format", "the owner can open what is written", detail="table format 5"),
    check("java.version", "Java 17 or newer is there", "not run", "needs a JVM: see `stateferry doctor`"),
    check("spark.rocksdict", "the executors have rocksdict", "not run", "needs a JVM: see `stateferry doctor`"),
)


def good_report() -> Planned:
    """Four store partitions, ready to go."""
    return Planned(
        name="orders-timestamped",
        source_format="kafka-streams.key-value",
        target_format="kafka-streams.timestamped-key-value",
        source=Path("/srv/state/orders-app"),
        target=None,
        stores=("orders",),
        work_dir=Path("/srv/stateferry-work"),
        tool_version="0.1.0",
        made_at_ms=NOON,
        seconds=1.84,
        is_estimate=True,
        state="not started",
        found=found(),
        tried=tried(),
        cost=cost(planned(4, 6, skew=0.12)),
        changelog="The changelog's bytes stay as they are: Kafka Streams keeps values without timestamps in it, "
        "and puts the record's own timestamp in front when it restores.",
        warnings=("The application runs: 3.0 MiB of the write-ahead log of 0_0/orders were not flushed yet.",),
        checks=GOOD_CHECKS,
        verdict=Verdict(
            exit_code=0,
            go=True,
            sentence="go, once the application is stopped: nothing else stands in the way",
            next_step="stop the application, then: stateferry run orders.toml",
        ),
    )


def refused_report() -> DryRunReport:
    """A report in which a check failed before anything was examined."""
    return good_report().model_copy(
        update={
            "found": None,
            "tried": None,
            "cost": None,
            "is_estimate": False,
            "changelog": "",
            "warnings": (),
            "checks": (
                GOOD_CHECKS[0],
                check(
                    "source.exists",
                    "the stores are there",
                    "failed",
                    "/srv/state/orders-app has no store orders; it has: invoices, refunds",
                    fix='set [source] store = "invoices"',
                    exit_code=2,
                ),
                check("source.format", "the records match the spec", "not run", "needs source.exists"),
            ),
            "verdict": Verdict(
                exit_code=2,
                go=False,
                sentence="no go: the spec is wrong: /srv/state/orders-app has no store orders, but two others",
                next_step='set [source] store = "invoices" in orders.toml, then repeat: stateferry plan orders.toml',
            ),
        }
    )
