"""The plan's file beside the ledger."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from migrate.errors import RefusedError
from migrate.model.plan import _WAY_OUT, Plan, _file, _unreadable, coverage_flaw, newest_plan
from migrate.model.seal import read_sealed, with_seal
from migrate.stores.files import write_durably
from migrate.stores.regular_files import read_regular


def store_plan(home: Path, plan: Plan) -> None:
    """Write the plan, durably, with its digest. Raises ValueError for one that breaks I3."""
    if (flaw := coverage_flaw(plan)) is not None:
        raise ValueError(f"the plan does not cover the store: {flaw}")
    write_durably(_file(home, plan.revision), with_seal(plan.model_dump_json(indent=1)).encode())


def load_plan(home: Path) -> Plan | None:
    """The newest plan revision, or None. Raises RefusedError for one of a newer schema or a damaged one."""
    file = newest_plan(home)
    if file is None:
        return None
    content, is_whole = read_sealed(read_regular(file))
    try:
        plan = Plan.model_validate_json(content)
    except ValidationError as error:
        raise _unreadable(file, content, error) from error
    if not is_whole:
        raise RefusedError(f"{file} is damaged: its content does not have the digest that it names", hint=_WAY_OUT)
    if (flaw := coverage_flaw(plan)) is not None:
        raise RefusedError(f"{file} is damaged: {flaw}", hint=_WAY_OUT)
    return plan
