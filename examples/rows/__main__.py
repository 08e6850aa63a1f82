"""A store of a real application of Kafka Streams is asked in SQL, exported, and gets 12 partitions in place of 2.

The application then starts on input with 12 partitions, and finds every key where its own partitioner looks for it.
`make demo-rows` runs it; everything it makes lies in build/rows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from deltalake import DeltaTable
from rich.console import Console

from jobs.java import find_java_home
from jobs.rows import register
from tests.broker.broker import running_broker
from tests.live.kafka_streams.kinds import TIMESTAMPED_KEY_VALUE
from tests.live.maven import ProgramError
from tests.live.partitions.app import Program, found_by, make_input, records

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOLDER = ROOT / "build/rows"
CUSTOMERS, EACH = 20_000, 3
"""Customers, and the inputs of each one, of which the store keeps the last one."""
BEFORE, AFTER = 2, 12
QUERY = """
SELECT task, count(*) AS customers, min(timestamp) AS oldest, max(timestamp) AS newest
FROM customers GROUP BY task ORDER BY task
"""


class DemoError(Exception):
    """A command failed, or an application does not find what it must."""


def main(folder: Path = FOLDER, customers: int = CUSTOMERS) -> int:
    """The exit code: 1 if anything is not as it must be."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "broker").mkdir(parents=True)
    console = Console(highlight=False, soft_wrap=True)
    console.print("[dim]starting a broker, and building an application of Kafka Streams ...")
    try:
        with running_broker(folder / "broker") as broker:
            _Demo(folder, broker.bootstrap, console).show(customers)
    except (DemoError, ProgramError) as error:
        console.print(f"{error}", style="bold red", markup=False)
        return 1
    console.print("Everything is in build/rows: the spec, both state directories, the exported table.")
    return 0


class _Demo:
    def __init__(self, folder: Path, bootstrap: str, console: Console) -> None:
        self._console = console
        self._folder = folder
        self._spec = folder / "migration.toml"
        text = (HERE / "migration.toml").read_text(encoding="utf-8")
        self._spec.write_text(text.replace("localhost:9092", bootstrap), encoding="utf-8")
        kinds = (TIMESTAMPED_KEY_VALUE,)
        self._old = Program(bootstrap, "shop-app", folder / "state", BEFORE, exactly_once=True, kinds=kinds)
        self._new = replace(self._old, state_dir=folder / f"state-{AFTER}", partitions=AFTER, suffix=f"-{AFTER}")

    def show(self, customers: int) -> None:
        """Start to finish. Raises DemoError."""
        names = [f"customer-{number}" for number in range(customers)]
        with self._step(f"The application, with {BEFORE} partitions"):
            make_input(self._old, every=records(customers, EACH))
            before = found_by(self._old, names, is_restored=False)
            self._tell(f"{customers * EACH:,} inputs of {len(before):,} customers are processed")
        with self._step("Its store in SQL"):
            self._ask()
        with self._step("Its store as a Delta table"):
            table = self._folder / "customers"
            self._stateferry("export", "--to", os.path.relpath(table))
            self._check_table(table, customers)
        with self._step(f"{BEFORE} partitions become {AFTER}"):
            self._stateferry("run", "--no-spark")
        with self._step(f"The application, with {AFTER} partitions"):
            make_input(self._new)
            self._check_found(before, found_by(self._new, names, is_restored=False), "restores nothing")
        with self._step("The same on another host, where it has no state"):
            elsewhere = replace(self._new, state_dir=self._folder / "elsewhere")
            found = found_by(elsewhere, names, is_restored=True)
            self._check_found(before, found, "restores all of it from its changelog")

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        """A title before, and how long it took behind."""
        self._console.print(f"\n[bold]{title}")
        since = time.monotonic()
        yield
        self._console.print(f"  [dim]{time.monotonic() - since:.1f} s")

    def _ask(self) -> None:
        from pyspark.sql import SparkSession

        os.environ["JAVA_HOME"] = str(find_java_home())
        quiet = f"-Dlog4j2.configurationFile={(ROOT / 'jobs/log4j2.properties').as_uri()}"
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.driver.extraJavaOptions", quiet).getOrCreate()
        try:
            register(spark)
            where = f"path '{self._old.folder}', store '{self._old.stores[TIMESTAMPED_KEY_VALUE]}'"
            what = f"format 'kafka-streams.{TIMESTAMPED_KEY_VALUE}', key 'string', value 'string'"
            spark.sql(f"CREATE TEMPORARY VIEW customers USING stateferry OPTIONS ({where}, {what})")
            self._tell(" ".join(QUERY.split()))
            spark.sql(QUERY).show(truncate=False)
        finally:
            spark.stop()

    def _check_table(self, table: Path, customers: int) -> None:
        found = DeltaTable(table)
        rows = found.to_pyarrow_dataset().count_rows()
        self._tell(f"version {found.version()} has {rows:,} rows, in {len(found.file_uris())} files")
        if rows != customers:
            raise DemoError(f"{table} has {rows} rows, not {customers}")

    def _check_found(self, before: object, after: object, what: str) -> None:
        if before != after:
            raise DemoError("the application does not find what it found before")
        self._tell(f"it {what}, and finds every customer where its own partitioner looks, with the value that it had")

    def _stateferry(self, verb: str, *options: str) -> None:
        self._console.print("[bold]$", "stateferry", verb, os.path.relpath(self._spec), *options)
        command = [sys.executable, "-c", "from migrate.cli import main; main()", verb, str(self._spec), *options]
        if code := subprocess.run(command, check=False).returncode:
            raise DemoError(f"stateferry {verb} exited {code}")

    def _tell(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
