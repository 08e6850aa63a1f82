"""Plan files, beside the ledger in the migration's folder."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import ValidationError

from migrate.errors import RefusedError
from migrate.model.plan import PLAN_SCHEMA, Plan, coverage_flaw, newest_plan
from migrate.model.values import read_sealed, with_seal
from migrate.stores.files import write_durably
from migrate.stores.regular_files import read_regular

_RECOVERY = (
    "restore the file, or remove it and rerun: the same migration is planned again, and what is finished is kept; "
    "stateferry abandon SPEC starts again, and removes our files and nothing else"
)


def store_plan(home: Path, plan: Plan) -> None:
    """Write the plan, durably, with its digest. Raises ValueError for one that breaks I3."""
    if (flaw := coverage_flaw(plan)) is not None:
        raise ValueError(f"the plan does not cover the store: {flaw}")
    write_durably(home / f"plan-{plan.revision:04d}.json", with_seal(plan.model_dump_json(indent=1)).encode())


def load_plan(home: Path) -> Plan | None:
    """The newest plan revision, or None. Raises RefusedError for one of a newer schema or a damaged one."""
    file = newest_plan(home)
    if file is None:
        return None
    content, is_whole = read_sealed(read_regular(file))
    try:
        plan = Plan.model_validate_json(content)
    except ValidationError as error:
        _refuse_newer_schema(file, content)
        first = error.errors()[0]
        raise _damaged(file, ": ".join([*map(str, first["loc"]), first["msg"]])) from error
    if not is_whole:
        raise _damaged(file, "its content does not have the digest that it names")
    if (flaw := coverage_flaw(plan)) is not None:
        raise _damaged(file, flaw)
    return plan


def _refuse_newer_schema(file: Path, content: str) -> None:
    version = re.search(r'"schema_version": ?(\d+)', content)
    if version is not None and int(version[1]) > PLAN_SCHEMA:
        raise RefusedError(
            f"{file} has schema {int(version[1])}, this version knows {PLAN_SCHEMA}",
            hint="use the newer Stateferry that wrote it",
        )


def _damaged(file: Path, reason: str) -> RefusedError:
    return RefusedError(f"{file} is damaged: {reason}", hint=_RECOVERY)
