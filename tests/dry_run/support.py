"""The expected results of a dry run, by brute force, and a check that it changes no file."""

import hashlib
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import migrate
from formats import StateRecord
from migrate.batch.preflight.check import CheckReport
from migrate.dry_run.dry_run_report import Cost, DryRunReport, Inventory, SampleConversion
from migrate.spec.spec import Spec
from tests.support import open_store

Change = Callable[[bytes, bytes], tuple[bytes, bytes] | None]
"""A conversion of one record; raises ValueError to reject it."""


def everything(root: Path) -> dict[str, tuple[object, ...]]:
    """Each path at or below `root`: kind, mode, owner, inode, links, size, modification and change time, content."""
    return {str(path): _state(path) for path in (root, *sorted(root.rglob("*")))}


def _state(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(found.st_mode) else ""
    link = str(path.readlink()) if path.is_symlink() else ""
    numbers = (found.st_mode, found.st_uid, found.st_gid, found.st_ino, found.st_nlink, found.st_size)
    return (*numbers, found.st_mtime_ns, found.st_ctime_ns, content, link)


def temporary_leftovers() -> set[str]:
    """Names of Stateferry's files in the folder for temporary files."""
    return {path.name for path in Path(tempfile.gettempdir()).glob("stateferry-*")}


@contextmanager
def nothing_changes(root: Path) -> Iterator[None]:
    """Check that `root` stays as it is, inodes included, and that no temporary directory is left."""
    left = temporary_leftovers()
    before = everything(root)
    try:
        yield
    finally:
        after = everything(root)
        assert after == before
        assert temporary_leftovers() <= left


class Planned(DryRunReport):
    """The report of a dry run that has read the old stores."""

    found: Inventory
    tried: SampleConversion
    cost: Cost


def planned(spec: Spec, **options: Any) -> Planned:  # noqa: ANN401 - those of `plan`
    """Of a dry run; where it has not read them, these fields are None all the same, and a test of them fails."""
    return cast("Planned", migrate.plan(spec, **options))


def checks(report: DryRunReport, *outcomes: str) -> dict[str, CheckReport]:
    """The first check of each name with one of these outcomes."""
    return {check.name: check for check in reversed(report.checks) if check.outcome in outcomes}


def failed(report: DryRunReport) -> dict[str, CheckReport]:
    """The checks that failed, by name."""
    return checks(report, "failed")


@dataclass
class Expected:
    """The results of converting all records of one store, by brute force."""

    records: int = 0
    converted: int = 0
    dropped: int = 0
    unchanged: int = 0
    colliding: int = 0
    """Only neighbours are counted."""
    is_disordered: bool = False
    reasons: Counter[str] = field(default_factory=Counter)
    old_keys: list[int] = field(default_factory=list)
    old_values: list[int] = field(default_factory=list)
    new_keys: list[int] = field(default_factory=list)
    new_values: list[int] = field(default_factory=list)

    @property
    def rejected(self) -> int:
        return self.reasons.total()

    def add_family(self, records: Mapping[bytes, bytes], change: Change) -> None:
        """Add one column family of one RocksDB directory."""
        written = []
        for key, value in sorted(records.items()):
            self.records += 1
            self.old_keys.append(len(key))
            self.old_values.append(len(value))
            try:
                new = change(key, value)
            except ValueError as error:
                self.reasons[f"the function raised ValueError: {error}"] += 1
                continue
            if new is None:
                self.dropped += 1
                continue
            written.append(new)
            self.converted += 1
            self.unchanged += new == (key, value)
            self.new_keys.append(len(new[0]))
            self.new_values.append(len(new[1]))
        self.colliding += sum(before == key for (before, _), (key, _) in pairwise(written))
        self.is_disordered |= any(before > key for (before, _), (key, _) in pairwise(written))


def quantile(sizes: Iterable[int], share: float) -> int:
    """The smallest size that this share of them does not exceed."""
    ordered = sorted(sizes)
    return next(size for at, size in enumerate(ordered, 1) if at >= share * len(ordered))


def as_function(change: Change) -> Callable[[StateRecord], StateRecord | None]:
    """The change as a user's function."""

    def convert(record: StateRecord) -> StateRecord | None:
        new = change(record.key, record.value)
        return None if new is None else StateRecord(key=new[0], value=new[1])

    return convert


def write_runs(path: Path, runs: Iterable[Mapping[bytes, bytes | None]], *, flush: bool, compact: bool = False) -> Path:
    """A store written in several runs, each flushed to its own SST file; None deletes a key.

    Without `flush` all of it lies in the write-ahead log, as a crash leaves it.
    """
    made = path if flush else path.with_name(path.name + ".open")
    with open_store(made) as database:
        for number, run in enumerate(runs):
            for key, value in run.items():
                if value is None:
                    database.delete(key)
                else:
                    database[key] = value
            if flush:
                database.flush(True)
            if compact and number == 0:
                database.compact_range(None, None)
        if not flush:
            database.flush_wal(True)
            shutil.copytree(made, path, ignore=shutil.ignore_patterns("LOG", "rocksdict-config.json"))
    if not flush:
        shutil.rmtree(made)
    return path


def what_is_left(runs: Iterable[Mapping[bytes, bytes | None]]) -> dict[bytes, bytes]:
    """The records that are left after all runs."""
    left: dict[bytes, bytes | None] = {}
    for run in runs:
        left.update(run)
    return {key: value for key, value in sorted(left.items()) if value is not None}
