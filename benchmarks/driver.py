"""How many chunks a second the driver plans, schedules and commits, when the work itself takes no time."""

from __future__ import annotations

from benchmarks.results import Bar, Result
from benchmarks.rounds import Sample, empty_folder, measure
from benchmarks.setting import Setting
from benchmarks.stores import PLAIN, ensure_store

DRIVER_BAR = 200.0
RECORDS_OF_A_CHUNK = 50
_EXECUTORS = {"1 slot": (1, 0), "256 slots": (256, 0), "256 slots, 8 MiB a call": (256, 8 << 20)}
_COLUMNS = ["executor", "chunks", "commits", "plan, s", "rewrite, s", "ms CPU a chunk", "chunks a second", "peak MiB"]


def driver(setting: Setting) -> list[Result]:
    """The driver with executors that do nothing, in tenfold growth; and its memory for each chunk."""
    most = 10_000 if setting.quick else 100_000
    result = Result("driver", f"The driver's part of a run of {most:,} chunks, in process", list(_COLUMNS))
    result.notes.append(
        "Canned: the executor returns a made-up receipt at once, with an empty file. All else is a run as always: the "
        "plan over a real store, the ledger, events and log. It ends when all chunks are committed."
    )
    for name, (slots, call_bytes) in _EXECUTORS.items():
        samples = [_measured(setting, chunks, slots, call_bytes) for chunks in (most // 10, most)]
        for sample in samples:
            result.rows.append([name, *_cells(sample)])
        result.raw[name] = [{"peak_mib": sample.peak_mib, **sample.facts} for sample in samples]
        few, many = samples
        result.bars.append(Bar(result.name, f"chunks a second, {name}", DRIVER_BAR, _rate(many)))
        grown = (many.peak_mib - few.peak_mib) * 1024 / (many.facts["chunks"] - few.facts["chunks"])
        result.notes.append(f"Memory of the driver, {name}: {grown:.1f} KiB for each chunk.")
    return [result]


def _measured(setting: Setting, chunks: int, slots: int, call_bytes: int) -> Sample:
    store = ensure_store(setting.folder, PLAIN, chunks * RECORDS_OF_A_CHUNK)
    size = sum(file.stat().st_size for file in store.path.glob("*.sst"))
    with empty_folder(setting.folder) as folder:
        arguments = {"source": str(store.path), "folder": str(folder), "chunk_size": size // chunks}
        return measure("canned-run", {**arguments, "slots": slots, "call_bytes": call_bytes})


def _rate(sample: Sample) -> float:
    facts = sample.facts
    return float(facts["chunks"] / (facts["plan"] + facts["rewrite"]))


def _cells(sample: Sample) -> list[str]:
    facts = sample.facts
    cpu = 1000 * (facts["plan_cpu"] + facts["rewrite_cpu"]) / facts["chunks"]
    counts = [f"{facts['chunks']:,}", f"{facts['commits']:,}"]
    seconds = [f"{facts['plan']:.1f}", f"{facts['rewrite']:.1f}"]
    return [*counts, *seconds, f"{cpu:.2f}", f"{_rate(sample):,.0f}", f"{sample.peak_mib:.0f}"]
