"""An export of a store as a Delta table: the file of each range, as the table's log records it, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from migrate.model.reports import Column
from migrate.model.values import Report, Stored

ExportSide = Literal["old", "new", "snapshot"]


class ExportedRange(Stored):
    """The rows of one range of a store partition, in a durable file of the table."""

    name: str
    """The store partition and the number of the range, such as `0_1/orders/3`."""
    task: str
    state: str
    """A digest of the source's files, the range and the columns: with another one the range is read again."""
    path: str
    """The file, relative to the table; empty: the range has no rows."""
    size: int
    """The file's bytes."""
    records: int
    """Rows."""


class ExportReport(Report):
    """What `export` prints: the version of the table that it has added."""

    store: str
    side: ExportSide
    """Which of the migration's stores was read."""
    table: Path
    version: int
    """The version of the Delta table."""
    columns: tuple[Column, ...]
    records: int
    """Rows of this version."""
    files: int
    size: int
    """Bytes of these files."""
    ranges: int
    kept_ranges: int
    """Those that an interrupted export had finished, and whose state is unchanged."""
    seconds: float
