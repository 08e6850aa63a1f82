"""The record of an old store that is made from its changelog, and whether it is whole."""

from __future__ import annotations

from pydantic import ValidationError

from migrate.batch.home import RESTORED_RECORD
from migrate.errors import RefusedError
from migrate.model.restored import RestoredRecord
from migrate.model.values import read_sealed
from migrate.spec.spec import Spec
from migrate.stores.regular_files import read_regular

START_OVER = "stateferry abandon SPEC, then stateferry restore SPEC"


def restored_record(spec: Spec) -> RestoredRecord | None:
    """The record; None: the reading has not begun. Raises RefusedError where it is damaged."""
    file = spec.home / RESTORED_RECORD
    if not file.exists():
        return None
    text, is_whole = read_sealed(read_regular(file))
    try:
        if is_whole:
            return RestoredRecord.model_validate_json(text)
        reason = "it does not have the digest that it names"
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
    raise RefusedError(f"{file} is damaged, or of a newer Stateferry: {reason}", hint=START_OVER)


def check_restored(spec: Spec) -> None:
    """Raises RefusedError where the old store is to be made from its changelog, and is not yet, or not whole."""
    record = restored_record(spec)
    if record is None or record.left:
        missing = "" if record is None else f": {len(record.left)} of {len(record.pinned)} store partitions are missing"
        raise RefusedError(
            f"the old store is not made from its changelog yet{missing}",
            hint="stateferry restore SPEC makes it, in the work_dir, and changes nothing else",
        )
