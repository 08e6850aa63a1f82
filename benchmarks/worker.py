"""One measurement in a process of its own: `python -m benchmarks.worker JOB ARGUMENTS`.

The result is JSON on the last line. Time is counted from after the imports to the result's last byte being durable.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import (
    canned,
    changelogs,
    dual_access,
    engine_work,
    faust_application,
    quix_application,
    rows_memory,
    safety,
    status,
    watched,
)
from benchmarks.evolving import convert_values
from benchmarks.pairs import PAIR_ROUTES
from benchmarks.queries import point_gets
from benchmarks.repartition import move_partitions
from benchmarks.retention import move_segments
from benchmarks.rounds import seconds, seconds_since
from benchmarks.routes import ROUTES, result_database, rewrite
from benchmarks.safety import make_spec
from benchmarks.sorting import sort_keys
from migrate.batch.run import run
from migrate.engine.portable import RecordDigest
from migrate.model.events import Event
from migrate.model.key_range import KeyRange
from migrate.spec.sections import RunSection
from migrate.stores.rocksdb.database import open_read_only

Facts = dict[str, Any]


def route(name: str, source: str, folder: str) -> Facts:
    """One way to do the work."""
    return ROUTES[name](Path(source), Path(folder)) or {}


def pair(name: str, route: str, source: str, folder: str) -> Facts:
    """A conversion of another pair of formats, by the product or by the bare loop."""
    return PAIR_ROUTES[route](name, Path(source), Path(folder)) or {}


def digest(folder: str) -> Facts:
    """The record digest of a route's result; not a measurement."""
    found = RecordDigest()
    with open_read_only(result_database(Path(folder))) as database:
        for batch in database.batches("default"):
            found.update(batch)
    return {"records": found.records, "digest": str(found)}


def chunks(source: str, folder: str, edges: list[str | None], engine: str) -> Facts:
    """The chunks between these keys, one after the other."""
    bounds = [None if edge is None else edge.encode("ascii") for edge in edges]
    for number, (start, end) in enumerate(pairwise(bounds)):
        rewrite(Path(source), Path(folder) / f"{number}.sst", KeyRange(start=start, end=end), engine=engine)
    return {}


def prepare(source: str, folder: str) -> Facts:
    """A new store, to be verified; not a measurement."""
    rewrite(Path(source), Path(folder) / "new.sst")
    result_database(Path(folder))
    return {}


def whole_run(source: str, folder: str, master: str | None = None, jobs: int = 1, **settings: object) -> Facts:
    """The product from the spec to the published store; `settings`: of `[run]`, None for the default."""
    given = {name: value for name, value in settings.items() if value is not None and name in RunSection.model_fields}
    spec = make_spec(folder, {"path": source}, target={"path": "published"}, run=given)
    ledger = _LedgerClock()
    report = run(spec, master=master, jobs=jobs, on_event=ledger)
    return {
        "phases": report.seconds,
        "chunks": report.totals.chunks,
        "records": report.totals.records_out,
        "task_seconds": report.totals.task_seconds,
        "chunk_commit_seconds": round(ledger.seconds, 3),
    }


def dry_run(source: str, full: bool) -> Facts:
    """The dry run of the same; its imports count."""
    from migrate.dry_run.dry_run import SAMPLE, plan

    spec = make_spec(f"{source}.work", {"path": source}, target={"path": "published"})
    report = plan(spec, full=full, sample=None if full else SAMPLE)
    if not report.verdict.go or report.found is None or report.cost is None:
        raise AssertionError(f"no go: {report.verdict}")
    return {"records": report.found.records, "told_records_per_second": report.cost.records_per_second}


class _LedgerClock:
    """Seconds between a chunk's coming in and its being committed."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since = 0.0

    def __call__(self, event: Event) -> None:
        if event.name == "chunk.finished":
            self._since = time.perf_counter()
        elif event.name == "chunk.committed":
            self.seconds += time.perf_counter() - self._since


def spark_queries(folder: str, rounds: int) -> Facts:
    """Queries of PySpark, which takes memory once it is imported."""
    from benchmarks.spark_state import queries

    return queries(folder, rounds)


def avro_rows(route: str, file: str) -> Facts:
    """Rows of Arrow, which takes memory once it is imported."""
    from benchmarks.rows import read_values

    return read_values(route, file)


def exports(folder: str, store: str, rounds: int) -> Facts:
    """Ways to write a Delta table; Spark is loaded where it is imported."""
    from benchmarks.exports import writers

    return writers(folder, store, rounds)


def rows_in_spark(folder: str, store: str, kind: str, rounds: int) -> Facts:
    """A data source of Spark beside Parquet; Spark is loaded where it is imported."""
    from benchmarks.rows_in_spark import aggregates

    return aggregates(folder, store, kind, rounds)


JOBS: dict[str, Callable[..., Facts]] = {
    **canned.JOBS,
    **changelogs.JOBS,
    **dual_access.JOBS,
    **engine_work.JOBS,
    **faust_application.JOBS,
    **quix_application.JOBS,
    **rows_memory.JOBS,
    **safety.JOBS,
    **status.JOBS,
    **watched.JOBS,
    "route": route,
    "pair": pair,
    "avro": convert_values,
    "avro-rows": avro_rows,
    "retention": move_segments,
    "repartition": move_partitions,
    "sorting": sort_keys,
    "digest": digest,
    "chunks": chunks,
    "prepare": prepare,
    "run": whole_run,
    "dry-run": dry_run,
    "point-gets": point_gets,
    "spark-queries": spark_queries,
    "export": exports,
    "rows-in-spark": rows_in_spark,
}


def main() -> None:
    """Do the job that the command line names."""
    job, arguments = JOBS[sys.argv[1]], json.loads(sys.argv[2])
    begun = seconds()
    facts = job(**arguments)
    print(json.dumps({**seconds_since(begun), "peak_mib": _peak_mib(), **facts}))


def _peak_mib() -> float:
    """Resident memory at its highest. getrusage counts the parent's too, which the process was for an instant."""
    status = Path("/proc/self/status")
    if not status.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    (line,) = (line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
