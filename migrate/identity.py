"""What makes a migration this one and no other (I5)."""

from __future__ import annotations

import hashlib
import json

from formats import CONVERSION_REVISION
from migrate.errors import SourceChangedError
from migrate.functions import ConversionRef, function_digest
from migrate.plan_model import Plan
from migrate.source import Source
from migrate.spec import Spec
from migrate.stores.rocksdb import open_read_only


def migration_identity(spec: Spec, source: Source, ref: ConversionRef) -> dict[str, str]:
    """By name: the source's files, what the spec says of the result, and the code that makes it.

    `[run]`, the engine, the Spark master and this tool's version change nothing in the result, and are no part of it.
    """
    sections = {
        "[source]": spec.source.model_dump_json(),
        "[target]": spec.target.model_dump_json(),
        "[conversion]": spec.conversion.model_dump_json(exclude={"allow", "py_files"}),
        "conversion revision": str(CONVERSION_REVISION),
        "function": function_digest(ref),
    }
    for partition in source.partitions:
        for database, directory in partition.directories(source.path).items():
            with open_read_only(directory) as opened:
                files = [(file.name, file.size) for file in opened.live_files()]
                content = json.dumps([opened.sequence_number, opened.families, files])
            sections[f"store {partition.id} {database}".removesuffix(" .")] = _digest(content)
    return {name: text if len(text) <= 64 else _digest(text) for name, text in sections.items()}


def migration_id(identity: dict[str, str]) -> str:
    """One name for all of it."""
    return _digest(json.dumps(identity, sort_keys=True))


def check_identity(plan: Plan, identity: dict[str, str]) -> None:
    """Raises SourceChangedError naming what is not as it was when the plan was stored."""
    if plan.identity == identity:
        return
    names = {*plan.identity, *identity}
    changed = sorted(name for name in names if plan.identity.get(name) != identity.get(name))
    raise SourceChangedError(
        f"this is not the migration that was begun; changed since: {', '.join(changed)}",
        hint="restore what changed to go on, or remove the migration's folder in work_dir to begin anew; "
        "the source itself was not touched",
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
