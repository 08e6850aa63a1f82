"""What safety costs: the ledger and every sync in a run, the decision to resume, the cut-over and the way back."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

from benchmarks.results import Bar, Result
from benchmarks.rounds import empty_folder, measure
from benchmarks.setting import SMALL, Setting

LEDGER_BAR = 0.02
RESUME_BAR = 3.0
SWITCH_BAR = 1.0
CHUNKS = 1000
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
    """From the call of `run` to the knowledge that no chunk is left, of 1 000 committed ones."""
    store = setting.store(SMALL)
    with empty_folder(setting.folder) as folder:
        arguments = {"source": str(store.path), "folder": str(folder), "chunks": CHUNKS}
        chunks = measure("thousand-chunks", arguments).facts["chunks"]
        seconds = [measure("resume", arguments).facts["seconds"] for _ in range(min(3, setting.rounds))]
    result = Result("resume", f"{store.words} in {chunks:,} chunks, all of them committed", ["what", "seconds, median"])
    result.rows.append(["from the call to: nothing is left to rewrite", f"{statistics.median(seconds):.2f}"])
    result.raw["seconds"] = seconds
    result.bars.append(Bar(result.name, "seconds to decide", RESUME_BAR, statistics.median(seconds), "at most"))
    return [result]


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
