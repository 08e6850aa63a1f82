"""`python -m benchmarks`: measure, write the results, and fail where a bar is missed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks import (
    changelogs,
    comparisons,
    driver,
    dry_run,
    durability,
    engines,
    exports,
    faust,
    growth,
    kafka_upgrade,
    lazy,
    live_changelogs,
    product,
    queries,
    quix,
    repartition,
    rows,
    rows_in_spark,
    rows_memory,
    scaling,
    serving,
    sorting,
    spark_state,
    status,
)
from benchmarks.report import machine, missed, write
from benchmarks.results import Result
from benchmarks.rounds import ROOT
from benchmarks.setting import Setting

BENCHMARKS: dict[str, Callable[[Setting], list[Result]]] = {
    "engine": comparisons.engine,
    "formats": comparisons.formats,
    "avro": comparisons.avro,
    "retention": comparisons.retention,
    "repartition": repartition.repartition,
    "sorting": sorting.sorting,
    "peers": comparisons.peers,
    "shapes": comparisons.shapes,
    "passes": engines.passes,
    "whole-runs": engines.whole_runs,
    "avro-stores": engines.avro,
    "kafka-upgrade": kafka_upgrade.kafka_upgrade,
    "segments": engines.segments,
    "shell": engines.shell,
    "memory": scaling.memory,
    "slots": scaling.slots,
    "run": product.run,
    "driver": driver.driver,
    "ledger": durability.ledger,
    "resume": durability.resume,
    "status": status.status,
    "chunks": growth.chunks,
    "tables": growth.tables,
    "partitions": growth.partitions,
    "growth-memory": growth.memory,
    "start": growth.start_of_spark,
    "lazy": lazy.lazy,
    "spark-state": spark_state.spark_state,
    "export": exports.exports,
    "dry-run": dry_run.dry_run,
    "serve": serving.serving,
    "queries": queries.gets,
    "rows": rows.rows,
    "rows-in-spark": rows_in_spark.rows_in_spark,
    "rows-memory": rows_memory.rows_memory,
    "quix": quix.quix,
    "faust": faust.faust,
    "changelog-write": changelogs.changelog_write,
    "changelog-reread": changelogs.changelog_reread,
    "changelog-restore": changelogs.changelog_restore,
    "changelog-memory": changelogs.changelog_memory,
    "changelog-migration": live_changelogs.changelog_migration,
    "changelog-restoration": live_changelogs.changelog_restoration,
}
GROUPS = {
    "engines": (
        "passes",
        "whole-runs",
        "avro-stores",
        "peers",
        "kafka-upgrade",
        "segments",
        "shell",
        "memory",
        "slots",
    ),
}
"""Tables that `--only` takes by one name."""


@click.command()
@click.option("--quick", is_flag=True, help="Stores of 2 M records only.")
@click.option(
    "--only", multiple=True, type=click.Choice([*BENCHMARKS, *GROUPS]), help="Only this one; may be repeated."
)
@click.option("--rounds", type=click.IntRange(min=1), help="Interleaved rounds; 3 with --quick, else 7.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / ".cache" / "bench",
    help="Where the stores are made and kept.",
)
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / "benchmarks" / "results",
    help="Where the results are written.",
)
def main(*, quick: bool, only: tuple[str, ...], rounds: int | None, folder: Path, results: Path) -> None:
    """Measure the product beside other ways to do the same. Exits 1 where a bar is missed, and names it."""
    setting = Setting(folder.absolute(), rounds or (3 if quick else 7), quick)
    setting.folder.mkdir(parents=True, exist_ok=True)
    about = {**machine(), "rounds": str(setting.rounds)}
    found: list[Result] = []
    for name in [name for each in only or BENCHMARKS for name in GROUPS.get(each, (each,))]:
        click.echo(f"{name} ...", err=True)
        for result in BENCHMARKS[name](setting):
            found.append(result)
            for bar in result.bars:
                click.echo(f"  {bar}")
    about["load before and after"] += f", {os.getloadavg()[0]:.1f}"
    page = write(results, "-".join((*only, "quick" if quick else "full")), found, about)
    click.echo(page.read_text(encoding="utf-8"))
    if bars := missed(found):
        for bar in bars:
            click.echo(str(bar), err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
