"""What makes a migration this one and no other (I5)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import BaseModel

from formats import CONVERSION_REVISION
from migrate.batch.source.snapshot import present_snapshot
from migrate.batch.source.source import Source
from migrate.errors import SourceChangedError
from migrate.model.plan import Plan
from migrate.model.store_partition import StorePartition, StoreState
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.spec import Spec
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.layout import file_states, metadata_digest

_STORE = "store "
_BY_SYNTAX = "2:"
"""The function is told by its syntax tree and what it imports; before that it was by its bytecode."""
_CHANGED_HINT = (
    "restore what changed to go on, or begin anew: stateferry abandon SPEC removes our files, and nothing else"
)
_BY_BYTECODE_HINT = (
    "restore it to go on, under the Python version that it was begun with; the release that began this migration told "
    "functions by their bytecode, and does not know one again that has a set in it: if it did not change, begin anew: "
    "stateferry abandon SPEC removes our files, and nothing else"
)
_CAME_LATER = {"version", "retention_ms", "segment_ms", "value", "key"}


def migration_identity(spec: Spec, source: Source, ref: ConversionRef, begun: Plan | None = None) -> dict[str, str]:
    """By name: what the spec says of the result, the code that makes it, and the source's files.

    `[run]`, the engine, the Spark master and this tool's version change nothing in the result, and are no part of it.
    """
    return spec_identity(spec, ref, begun) | store_identity(source)


def store_identity(source: Source) -> dict[str, str]:
    """The part of the identity that is the source's files."""
    return {
        _store_name(partition, database): _store_digest(directory)
        for partition in source.partitions
        for database, directory in source.directories(partition).items()
    }


def spec_identity(spec: Spec, ref: ConversionRef, begun: Plan | None = None) -> dict[str, str]:
    """The part of the identity that can be told without the source, as the plan tells it that was `begun`."""
    sections = {
        "[source]": stable_json(spec.source),
        "[target]": stable_json(spec.target),
        "[conversion]": stable_json(spec.conversion, exclude={"allow", "py_files", "files"}),
        "[conversion] allow key-change": str(ref.keys_may_change),
        "conversion revision": str(CONVERSION_REVISION),
    }
    for name, serdes in (("key", ref.key), ("value", ref.value)):
        if serdes is not None:
            sections[f"[conversion.{name}] schemas"] = serdes.identity
    return {name: _digest(text) for name, text in sections.items()} | _function_identity(ref, begun)


def _function_identity(ref: ConversionRef, begun: Plan | None) -> dict[str, str]:
    """By the scheme of the plan: its digest says which, and none is the first one."""
    is_by_bytecode = begun is not None and _is_by_bytecode(begun)
    if ref.function is None or is_by_bytecode:
        from migrate.spec.function.bytecode import conversion_digest

        return {"function": _digest(conversion_digest(ref))}
    own = dict(ref.code).get("", str(ref.function))
    parts = {f"function: {path}": digest[:32] for path, digest in ref.code if path}
    return {"function": f"{_BY_SYNTAX}{_digest(own)}", **parts}


def _is_by_bytecode(plan: Plan) -> bool:
    return not plan.identity.get("function", _BY_SYNTAX).startswith(_BY_SYNTAX)


def stable_json(section: BaseModel, exclude: set[str] | None = None) -> str:
    """A key that came later is no part of migrations that were begun without it."""
    absent = {name for name in _CAME_LATER if getattr(section, name, None) is None}
    return section.model_dump_json(exclude=(exclude or set()) | absent)


def store_state(directories: dict[str, Path], known: StoreState | None = None) -> StoreState:
    """As it is now. What nobody has opened for writing since it was `known` is not opened here either."""
    files, metadata = _files_digest(directories), _metadata_digest(directories)
    if known is not None and files == known.files and known.metadata in ("", metadata):
        return known
    content = {database: _store_digest(directory) for database, directory in directories.items()}
    return StoreState(content=_digest(json.dumps(content)), files=files, metadata=metadata)


def planned_state(plan: Plan, partition: StorePartition, home: Path) -> StoreState:
    """As a store partition was when its snapshot was taken."""
    content = {database: plan.identity[_store_name(partition, database)] for database in partition.databases}
    directories = present_snapshot(home, partition)
    return StoreState(
        content=_digest(json.dumps(content)), files=_files_digest(directories), metadata=_metadata_digest(directories)
    )


def _files_digest(directories: dict[str, Path]) -> str:
    return _digest(json.dumps({database: file_states(directory) for database, directory in directories.items()}))


def _metadata_digest(directories: dict[str, Path]) -> str:
    return _digest(json.dumps({database: metadata_digest(directory) for database, directory in directories.items()}))


def check_snapshot(folder: Path, source: Source, identity: dict[str, str]) -> None:
    """Raises SourceChangedError where the snapshot is not of the source as it was checked: its owner ran in between."""
    for partition in source.partitions:
        for database in partition.databases:
            if _store_digest(folder / partition.id / database) != identity[_store_name(partition, database)]:
                raise SourceChangedError(
                    f"store partition {partition.id} changed while its snapshot was taken",
                    hint="stop the application (all instances and standbys), then run the command again",
                )


def _store_name(partition: StorePartition, database: str) -> str:
    return f"{_STORE}{partition.id} {database}".removesuffix(" .")


def _store_digest(directory: Path) -> str:
    with open_read_only(directory) as opened:
        files = [(file.name, file.size) for file in opened.live_files()]
        return _digest(json.dumps([opened.sequence_number, opened.families, files]))


def migration_id(identity: dict[str, str]) -> str:
    """One name for all of it."""
    return _digest(json.dumps(identity, sort_keys=True))


def check_identity(plan: Plan, identity: dict[str, str]) -> None:
    """Raises SourceChangedError naming what is not as it was when the plan was stored.

    Of an identity in part, that part is compared; an empty one is of stores that have no RocksDB directory left.
    """
    are_compared = {name.startswith(_STORE) for name in identity} or {True}
    names = {name for name in (*plan.identity, *identity) if name.startswith(_STORE) in are_compared}
    changed = sorted(name for name in names if plan.identity.get(name) != identity.get(name))
    if not changed:
        return
    raise SourceChangedError(
        f"this is not the migration that was begun; changed since: {', '.join(changed)}",
        hint=_BY_BYTECODE_HINT if changed == ["function"] and _is_by_bytecode(plan) else _CHANGED_HINT,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
