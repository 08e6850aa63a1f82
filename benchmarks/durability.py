"""What safety costs: the ledger and every sync in a run, and the start of a resumed run."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

from benchmarks.results import Bar, Result
from benchmarks.rounds import empty_folder, measure
from benchmarks.setting import Setting

LEDGER_BAR = 0.02
RESUME_BAR = 5.0
LEFT = 100
"""Chunks to be rewritten yet."""
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
    """From the call of `run` to the first chunk of those that are left of many."""
    chunks, records = (2_000, 200_000) if setting.quick else (10_000, 1_000_000)
    store = setting.store(records)
    with empty_folder(setting.folder) as folder:
        arguments = {"source": str(store.path), "folder": str(folder), "chunks": chunks}
        measure("interrupted-run", {**arguments, "left": LEFT})
        seconds = [measure("resume", arguments).facts["seconds"] for _ in range(min(3, setting.rounds))]
    median = statistics.median(seconds)
    what = f"until a chunk is being rewritten, of {chunks:,}"
    result = Result("resume", "Wall time from the call of `run`", ["what", "seconds, median"])
    result.rows.append([what, f"{median:.2f}"])
    result.raw[what] = seconds
    result.bars.append(Bar(result.name, f"seconds {what}", RESUME_BAR, median, "at most"))
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
