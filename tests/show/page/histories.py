"""Histories made by hand: a migration in two runs, and one in which everything went wrong."""

import random
from pathlib import Path

from migrate.model.comparison import Mismatch, Totals, Verification
from migrate.model.preview import RejectExample, RejectReason
from migrate.model.reports import Throughput
from migrate.model.run_history import ChunkDone, RunHistory, RunSummary, StepDone
from tests.show.page.hostile import HOSTILE
from tests.show.page.samples import MIB, NOON, planned, shown

NIGHT = 11 * 3_600_000


def done(
    *, partitions: int = 4, chunks: int = 40, slots: int = 4, pause_after: int | None = 90
) -> tuple[ChunkDone, ...]:
    """Chunks as so many slots did them; after some of them, a night in which nothing was done."""
    numbers = random.Random(5)
    free = [NOON] * slots
    made = []
    for number, chunk in enumerate(planned(partitions, chunks, skew=0.1)):
        if number == pause_after:
            free = [max(free) + NIGHT] * slots
        slot = free.index(min(free))
        seconds = chunk.estimated_bytes / MIB / 150 * numbers.uniform(0.8, 1.25) * (4 if number % 37 == 11 else 1)
        started, free[slot] = free[slot], free[slot] + int(seconds * 1000) + 90
        records = chunk.estimated_bytes // 190
        made.append(
            ChunkDone(
                store_partition=chunk.store_partition,
                database=chunk.database,
                number=chunk.number,
                keys=chunk.keys,
                records_in=records,
                records_out=records - (number % 5 == 0),
                bytes_in=chunk.estimated_bytes,
                bytes_out=chunk.estimated_bytes + 8 * records,
                dropped=0,
                rejected=int(number % 5 == 0),
                seconds=seconds,
                started_at_ms=started,
                committed_at_ms=free[slot],
                host=f"worker-{slot % 2 + 1}",
                engine="native",
            )
        )
    return tuple(made)


def totals(chunks: tuple[ChunkDone, ...]) -> Totals:
    return Totals(
        chunks=len(chunks),
        records_in=sum(chunk.records_in for chunk in chunks),
        records_out=sum(chunk.records_out for chunk in chunks),
        dropped=sum(chunk.dropped for chunk in chunks),
        rejected=sum(chunk.rejected for chunk in chunks),
        bytes_in=sum(chunk.bytes_in for chunk in chunks),
        bytes_out=sum(chunk.bytes_out for chunk in chunks),
        task_seconds=sum(chunk.seconds for chunk in chunks),
    )


def runs(chunks: tuple[ChunkDone, ...], pause_after: int) -> tuple[RunSummary, ...]:
    """Two of them."""
    return tuple(
        RunSummary(
            run_id=f"{number:032x}",
            first_commit_ms=min(chunk.committed_at_ms for chunk in part),
            last_commit_ms=max(chunk.committed_at_ms for chunk in part),
            chunks=len(part),
            records_in=sum(chunk.records_in for chunk in part),
            seconds=sum(chunk.seconds for chunk in part),
        )
        for number, part in enumerate((chunks[:pause_after], chunks[pause_after:]), start=0xA11CE)
    )


def good_history() -> RunHistory:
    """Done in two runs, with a night between them, verified and cut over."""
    chunks = done()
    whole = totals(chunks)
    end = max(chunk.committed_at_ms for chunk in chunks)
    steps = [StepDone(step="run", committed_at_ms=NOON - 900, store_partition=None)]
    steps.append(StepDone(step="run", committed_at_ms=chunks[90].started_at_ms - 800, store_partition=None))
    steps += [
        StepDone(step="assembled", committed_at_ms=end + 700 * task, store_partition=f"0_{task}/orders")
        for task in range(1, 5)
    ]
    steps += [
        StepDone(step="verified", committed_at_ms=end + 94_000, store_partition=None),
        StepDone(step="cutting-over", committed_at_ms=end + 4_500_000, store_partition=None),
        StepDone(step="cut-over", committed_at_ms=end + 4_500_310, store_partition=None),
    ]
    return RunHistory(
        name="orders-timestamped",
        migration_id="4f1c0a52be77d1e09a3c",
        state="cut over",
        source_format="kafka-streams.key-value",
        target_format="kafka-streams.timestamped-key-value",
        source=Path("/srv/state/orders-app"),
        new_stores=tuple(Path(f"/srv/state/orders-app/0_{task}/rocksdb/orders") for task in range(4)),
        published=None,
        made_at_ms=end + 5_000_000,
        totals=whole,
        throughput=(
            Throughput(phase="rewriting", records=whole.records_in, seconds=91.5, records_per_second=1_402_117.3),
            Throughput(phase="verification", records=whole.records_out, seconds=81.3, records_per_second=1_577_990.1),
        ),
        verification=Verification(mode="full", records=whole.records_out, seconds=81.3),
        runs=runs(chunks, 90),
        chunks=chunks,
        chunks_planned=len(chunks),
        chunks_left=0,
        dead_letters=None,
        dead_letter_columns=(),
        concerns=(),
        rejects=(
            RejectReason(
                reason="the value has 3 bytes, a timestamp and a value need 8 or more",
                records=whole.rejected,
                examples=(
                    RejectExample(
                        store_partition="0_1/orders",
                        family="default",
                        key=shown(b"customer-0000411"),
                        value=shown(b"\x00\x01\x02"),
                        reason="the value has 3 bytes, a timestamp and a value need 8 or more",
                    ),
                ),
            ),
        ),
        steps=tuple(steps),
        changelog="The changelog's bytes stay as they are.",
        warnings=(),
        next_step="start the application; once it is well: stateferry finalize orders.toml",
    )


def ugly_history(*, partitions: int = 64, chunks_each: int = 205) -> RunHistory:
    """Thousands of chunks, three pauses, a mismatch, and hostile text everywhere."""
    chunks = done(partitions=partitions, chunks=chunks_each, slots=16)
    hostile = [shown(text.encode("utf-8", "surrogatepass"), text) for text in HOSTILE]
    first = chunks[0].model_copy(
        update={
            "store_partition": HOSTILE[0],
            "database": HOSTILE[1],
            "host": HOSTILE[3],
            "engine": HOSTILE[2],
            "seconds": 9000.0,
            "started_at_ms": chunks[0].committed_at_ms + 5000,
        }
    )
    chunks = (first, *chunks[1:])
    return good_history().model_copy(
        update={
            "name": HOSTILE[0],
            "state": "mismatch",
            "source": Path("/srv") / HOSTILE[8],
            "new_stores": (Path("/srv") / HOSTILE[1],),
            "published": Path("/srv") / HOSTILE[0],
            "totals": totals(chunks).model_copy(update={"rejected": 17_240, "dropped": 12}),
            "verification": Verification(
                mode="full",
                records=95_311_220,
                missing=17,
                differing=40_233,
                extra=2,
                first=tuple(
                    Mismatch(
                        kind=kind,
                        store_partition=HOSTILE[0],
                        family=HOSTILE[1],
                        key=HOSTILE[0].encode(),
                        field=HOSTILE[2],
                        expected=HOSTILE[8],
                        actual=HOSTILE[5],
                    )
                    for kind in ("missing", "differing", "extra")
                ),
                seconds=700,
            ),
            "runs": runs(chunks, 90),
            "chunks": chunks,
            "chunks_planned": len(chunks) + 411,
            "chunks_left": 411,
            "rejects": tuple(
                RejectReason(
                    reason=reason,
                    records=10_000 >> number,
                    examples=(
                        RejectExample(
                            store_partition=HOSTILE[0],
                            family=HOSTILE[1],
                            key=hostile[number],
                            value=hostile[-number],
                            reason=reason,
                        ),
                    ),
                )
                for number, reason in enumerate(HOSTILE)
            ),
            "steps": (
                *(StepDone(step="assembled", committed_at_ms=NOON, store_partition=name) for name in HOSTILE),
                StepDone(step="mismatch", committed_at_ms=NOON - 5, store_partition=None),
                StepDone(step=HOSTILE[0], committed_at_ms=NOON + 86_400_000, store_partition=HOSTILE[0]),
            ),
            "changelog": HOSTILE[0],
            "warnings": HOSTILE,
            "next_step": HOSTILE[1],
        }
    )


def empty_history() -> RunHistory:
    return good_history().model_copy(
        update={
            "state": "not started",
            "migration_id": None,
            "new_stores": (),
            "totals": Totals(),
            "throughput": (),
            "verification": None,
            "runs": (),
            "chunks": (),
            "chunks_planned": 0,
            "rejects": (),
            "steps": (),
            "changelog": "",
            "next_step": "stateferry run orders.toml",
        }
    )
