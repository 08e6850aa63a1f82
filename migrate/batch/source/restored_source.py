"""The records of old stores that are made in the migration's folder, and whether they are whole."""

from __future__ import annotations

from pathlib import Path

from migrate.batch.home import IMPORTED_RECORD, RESTORED_RECORD, parse_record
from migrate.errors import RefusedError
from migrate.model.reports import ImportedTable
from migrate.model.restored import ImportRecord, RestoredRecord
from migrate.spec.spec import Spec
from migrate.stores.regular_files import read_regular

IMPORT_AGAIN = "stateferry abandon SPEC, then stateferry import SPEC --from TABLE"
START_OVER = "stateferry abandon SPEC, then stateferry restore SPEC"


def restored_record(spec: Spec) -> RestoredRecord | None:
    """The record; None: the reading has not begun. Raises RefusedError where it is damaged."""
    file = spec.home / RESTORED_RECORD
    if not file.exists():
        return None
    return parse_record(RestoredRecord, file, read_regular(file), START_OVER)


def import_record(spec: Spec) -> ImportRecord | None:
    """The table whose rows the new store is made from; None: it is not known yet. Raises RefusedError as above."""
    file = spec.home / IMPORTED_RECORD
    if not spec.source.rows or not file.exists():
        return None
    return parse_record(ImportRecord, file, read_regular(file), IMPORT_AGAIN)


def imported_table(spec: Spec) -> ImportedTable | None:
    """What reports say of those rows; None: the migration has an old store. Raises RefusedError as above."""
    if not spec.source.rows:
        return None
    record = import_record(spec)
    if record is None:
        return ImportedTable()
    return ImportedTable(
        table=Path(record.table),
        version=record.version,
        rows=record.rows,
        files=len(record.files),
        size=record.size,
    )


def check_made(spec: Spec) -> None:
    """Raises RefusedError where the old store is to be made in the migration's folder, and is not yet, or not whole."""
    if spec.source.changelog:
        _check_restored(spec)
    elif spec.source.rows and import_record(spec) is None:
        raise RefusedError(
            "the store is to be made from the rows of a table, and nothing says of which",
            hint="stateferry import SPEC --from TABLE names it, and does all that a run does",
        )


def _check_restored(spec: Spec) -> None:
    record = restored_record(spec)
    if record is None or record.left:
        missing = "" if record is None else f": {len(record.left)} of {len(record.pinned)} store partitions are missing"
        raise RefusedError(
            f"the old store is not made from its changelog yet{missing}",
            hint="stateferry restore SPEC makes it, in the work_dir, and changes nothing else",
        )
