"""What safety costs: the ledger and every sync in a run, the decision to resume, the cut-over and the way back."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

from benchmarks.results import Bar, Result
from benchmarks.rounds import empty_folder, measure
from benchmarks.setting import SMALL, Setting
from benchmarks.stores import Store

LEDGER_BAR = 0.02
RESUME_BAR = 3.0
REWRITING_BAR = 5.0
SWITCH_BAR = 1.0
CHUNKS = 1000
LEFT = 100
"""Chunks to be rewritten yet."""
PARTITIONS = 64
PARTITION_RECORDS = 1000


def ledger(setting: Setting) -> list[Result]:
    """Seconds in ledger commits and in our own syncs, as a share of a run with the default chunk size."""
    store = setting.store(setting.sizes[-1])
    result = Result(
        "ledger", f"{store.words}; the default chunk size", ["round", "run, s", "ledger and syncs, s", "share"]
    )
    shares = []
    for number in range(1 if setting.quick else 3):
        with empty_folder(setting.folder) as folder:
            facts = measure("durable-run", {"source": str(store.path), "folder": str(folder)}).facts
        shares.append(facts["durable_seconds"] / facts["seconds"])
        cells = [f"{facts['seconds']:.2f}", f"{facts['durable_seconds']:.3f}", f"{shares[-1]:.2%}"]
        result.rows.append([str(number + 1), *cells])
        result.raw[str(number + 1)] = facts
    result.notes.append(
        "RocksDB's SST writer syncs each file itself, like the bare loop's: that is part of the rewriting."
    )
    bar = "share of the run in the ledger and in syncs"
    result.bars.append(Bar(result.name, bar, LEDGER_BAR, statistics.median(shares), "at most"))
    return [result]


def resume(setting: Setting) -> list[Result]:
    """From the call of `run` to the knowledge that no chunk is left; and of many, to the first of those that are."""
    chunks, records = (2_000, 200_000) if setting.quick else (10_000, 1_000_000)
    decided = _resume(setting, setting.store(SMALL), CHUNKS, 0)
    begun = _resume(setting, setting.store(records), chunks, LEFT)
    result = Result("resume", "Wall time from the call of `run`", ["what", "seconds, median"])
    for what, bar, seconds in (
        (f"to decide that nothing is left of {CHUNKS:,} chunks", RESUME_BAR, decided),
        (f"until a chunk is being rewritten, of {chunks:,}", REWRITING_BAR, begun),
    ):
        median = statistics.median(seconds)
        result.rows.append([what, f"{median:.2f}"])
        result.raw[what] = seconds
        result.bars.append(Bar(result.name, f"seconds {what}", bar, median, "at most"))
    return [result]


def _resume(setting: Setting, store: Store, chunks: int, left: int) -> list[float]:
    with empty_folder(setting.folder) as folder:
        arguments = {"source": str(store.path), "folder": str(folder), "chunks": chunks, "left": left}
        measure("interrupted-run", arguments)
        return [measure("resume", arguments).facts["seconds"] for _ in range(min(3, setting.rounds))]


def switch(setting: Setting) -> list[Result]:
    """A cut-over of 64 store partitions, and a rollback."""
    with empty_folder(setting.folder) as folder:
        application = make_application(folder, PARTITIONS)
        arguments = {"folder": str(folder), "application": str(application)}
        measure("run-in-place", arguments)
        seconds = [measure("switch", arguments).facts for _ in range(setting.rounds)]
    shape = f"{PARTITIONS} store partitions of {PARTITION_RECORDS:,} records"
    result = Result("switch", shape, ["what", "seconds, median", "best", "worst"])
    for verb in ("cutover", "rollback"):
        each = [facts[verb] for facts in seconds]
        median = statistics.median(each)
        result.rows.append([verb, f"{median:.2f}", f"{min(each):.2f}", f"{max(each):.2f}"])
        result.raw[verb] = each
        result.bars.append(Bar(result.name, f"seconds, {verb}", SWITCH_BAR, median, "at most"))
    return [result]


def make_application(folder: Path, partitions: int) -> Path:
    """A Kafka Streams state directory of one store in many tasks, 1 000 records each."""
    application = folder / "application"
    measure("small-store", {"path": str(folder / "one"), "records": PARTITION_RECORDS})
    for task in range(partitions):
        store = application / f"0_{task}" / "rocksdb" / "orders"
        shutil.copytree(folder / "one", store)
        (store / "IDENTITY").write_text(f"partition-{task}", encoding="ascii")
        checkpoint = f"0\n1\napplication-orders-changelog {task} {PARTITION_RECORDS}\n"
        (application / f"0_{task}" / ".checkpoint").write_text(checkpoint, encoding="ascii")
    return application
