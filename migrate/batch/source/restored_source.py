"""The record of an old store that is made from its changelog, and whether it is whole."""

from __future__ import annotations

from migrate.batch.home import RESTORED_RECORD, parse_record
from migrate.errors import RefusedError
from migrate.model.restored import RestoredRecord
from migrate.spec.spec import Spec
from migrate.stores.regular_files import read_regular

START_OVER = "stateferry abandon SPEC, then stateferry restore SPEC"


def restored_record(spec: Spec) -> RestoredRecord | None:
    """The record; None: the reading has not begun. Raises RefusedError where it is damaged."""
    file = spec.home / RESTORED_RECORD
    if not file.exists():
        return None
    return parse_record(RestoredRecord, file, read_regular(file), START_OVER)


def check_restored(spec: Spec) -> None:
    """Raises RefusedError where the old store is to be made from its changelog, and is not yet, or not whole."""
    record = restored_record(spec)
    if record is None or record.left:
        missing = "" if record is None else f": {len(record.left)} of {len(record.pinned)} store partitions are missing"
        raise RefusedError(
            f"the old store is not made from its changelog yet{missing}",
            hint="stateferry restore SPEC makes it, in the work_dir, and changes nothing else",
        )
