"""The identity of a migration (I5: a change in it makes another); old stores are known by theirs (I8, I11)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel

from formats import CONVERSION_REVISION
from migrate.batch.home import LEDGER_DAMAGED, NEW, SNAPSHOT
from migrate.batch.ledger.receipts_in_force import is_of_function
from migrate.batch.ledger.standing import Standing
from migrate.batch.source.restored_source import import_record
from migrate.batch.source.snapshot import Copies, present_snapshot, snapshot_directories
from migrate.batch.source.source import Reading, Source, application_of, files_of, read_store
from migrate.errors import RefusedError, SourceChangedError
from migrate.model.plan import Plan
from migrate.model.store_partition import StorePartition, StoreState
from migrate.spec.changelog_way import changelog_identity
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import OWN_PROCESS
from migrate.spec.partitioner import partitioner_ref
from migrate.spec.spec import Spec
from migrate.stores.rocksdb.database import StoreContent
from migrate.stores.rocksdb.layout import database_files, file_states, metadata_digest, rocksdb_identities

_STORE = "store "
_CHANGED_HINT = (
    "restore what changed to go on, or start again: stateferry abandon SPEC removes our files, and nothing else"
)
_REPLAY_HINT = (
    "stateferry replay SPEC goes on with the changed function: it rewrites the chunks with rejected records, and "
    "verifies everything in full; or "
)
_OWN_PROCESS_HINT = (
    "the function was given as an object, with code that is in no file or with other than plain values: only the "
    "process that started recognizes it. Make it a function of a module, which a spec names: module:function. For this "
    "migration, "
)
_IN_USE_HINT = (
    "restore what changed; that migration's new stores are in use, so another one needs another `name` in the spec"
)


def store_identity(source: Source, read: Callable[[Path], Reading] = read_store) -> dict[str, str]:
    """The part of the identity that is the source's files: digests by name."""
    return {
        _store_name(partition, database): _content_digest(read(directory).content)
        for partition in source.partitions
        for database, directory in source.directories(partition).items()
    }


def present_identity(source: Source, plan: Plan, home: Path) -> dict[str, str]:
    """As `store_identity`, without opening directories that have the very files of the snapshot."""
    found = {}
    for partition in source.partitions:
        taken = snapshot_directories(home, partition)
        for database, directory in source.directories(partition).items():
            name = _store_name(partition, database)
            is_known = name in plan.identity and taken[database].is_dir()
            is_same = is_known and files_of(directory) == files_of(taken[database])
            found[name] = plan.identity[name] if is_same else _store_digest(directory)
    return found


def spec_identity(spec: Spec, ref: ConversionRef) -> dict[str, str]:
    """The part of the identity that does not need the source: the code, and the spec as far as it affects the result.

    `[run]`, the engine, the Spark master and this tool's version do not.
    """
    sections = {
        "[source]": stable_json(spec.source),
        "[target]": stable_json(spec.target),
        "[conversion]": stable_json(spec.conversion, exclude={"allow", "on_collision", "py_files", "files"}),
        "[conversion] allow key-change": str(ref.keys_may_change),
        "conversion revision": str(CONVERSION_REVISION),
    }
    for name, serdes in (("key", ref.key), ("value", ref.value)):
        if serdes is not None:
            sections[f"[conversion.{name}] schemas"] = serdes.identity
    sections |= changelog_identity(spec, application_of(spec))
    if (partitioner := partitioner_ref(spec)) is not None:
        sections["[source] partitioner, its code"] = json.dumps(partitioner.code)
    if (record := import_record(spec)) is not None:
        sections["the table"] = f"{record.table_id}, version {record.version}"
    own = dict(ref.code).get("", str(ref.function))
    function = {"function": own if own.startswith(OWN_PROCESS) else _digest(own)}
    function |= {f"function: {path}": digest[:32] for path, digest in ref.code if path}
    return {name: _digest(text) for name, text in sections.items()} | function


def common_identity(spec: Spec, ref: ConversionRef) -> str:
    """A digest of the spec that is the same on every host of the application, wherever its stores are."""
    sections = {
        "[source]": stable_json(spec.source, exclude={"path", "leave_out"}),
        "[target]": stable_json(spec.target, exclude={"path"}),
    }
    return migration_id({**spec_identity(spec, ref), **sections})


def stable_json(section: BaseModel, exclude: set[str] | None = None) -> str:
    """A section of the spec as JSON, without keys that are unset: one that a later release adds changes nothing."""
    return section.model_dump_json(exclude=exclude, exclude_none=True)


def store_state(directories: dict[str, Path], known: StoreState | None = None) -> StoreState:
    """The present state of a store partition; `known` again, without opening it, where no process has written since."""
    files, metadata = _digests(directories)
    if known is not None and files == known.files and known.metadata == metadata:
        return known
    content = {database: _store_digest(directory) for database, directory in directories.items()}
    return StoreState(content=_digest(json.dumps(content)), files=files, metadata=metadata)


def created_state(directories: dict[str, Path], contents: dict[str, StoreContent]) -> StoreState:
    """The state of a new store partition, from the content that its RocksDB directories had when they were created."""
    files, metadata = _digests(directories)
    content = {database: _content_digest(contents[database]) for database in directories}
    return StoreState(content=_digest(json.dumps(content)), files=files, metadata=metadata)


def planned_state(plan: Plan, partition: StorePartition, home: Path) -> StoreState:
    """The state of a store partition when its snapshot was taken."""
    content = {database: plan.identity[_store_name(partition, database)] for database in partition.databases}
    files, metadata = _digests(present_snapshot(home, partition))
    return StoreState(content=_digest(json.dumps(content)), files=files, metadata=metadata)


def _digests(directories: dict[str, Path]) -> tuple[str, str]:
    """One digest of all files, and one of the metadata files, of these RocksDB directories."""
    listed = {database: (directory, database_files(directory)) for database, directory in directories.items()}
    files = {database: file_states(*each) for database, each in listed.items()}
    metadata = {database: metadata_digest(*each) for database, each in listed.items()}
    return _digest(json.dumps(files)), _digest(json.dumps(metadata))


def check_snapshot(
    folder: Path, copies: Copies, source: Source, identity: dict[str, str], read: Callable[[Path], Reading]
) -> None:
    """Raises SourceChangedError where the source changed between its check and the snapshot: its owner ran then.

    A snapshot is opened unless it has the very files that the content was read from. `read`: that of the source.
    """
    for partition in source.partitions:
        for database, directory in source.directories(partition).items():
            taken, known = folder / partition.id / database, read(directory)
            has_same_files = files_of(taken, copies[partition.id][database]) == known.files
            content = (known if has_same_files else read_store(taken)).content
            if _content_digest(content) != identity[_store_name(partition, database)]:
                raise SourceChangedError(
                    f"store partition {partition.id} changed while its snapshot was taken",
                    hint="stop the application (all instances and standbys), then run the command again",
                )


def _store_name(partition: StorePartition, database: str) -> str:
    return f"{_STORE}{partition.id} {database}".removesuffix(" .")


def _store_digest(directory: Path) -> str:
    return _content_digest(read_store(directory).content)


def _content_digest(content: StoreContent) -> str:
    return _digest(json.dumps([content.sequence_number, content.families, content.files]))


def migration_id(identity: dict[str, str]) -> str:
    """The migration's id: one digest of its identity."""
    return _digest(json.dumps(identity, sort_keys=True))


def check_spec(spec: Spec, ref: ConversionRef, standing: Standing) -> None:
    """Raises SourceChangedError where the spec or the function is not that of the migration any more."""
    check_identity(standing.identity, spec_identity(spec, ref), standing)


def check_identity(known: Mapping[str, str], identity: Mapping[str, str], standing: Standing | None = None) -> None:
    """Raises SourceChangedError naming what differs from the known identity.

    Only the parts of the identity that are given are compared; an empty one means that no RocksDB directory is left.
    `standing`: that of the migration, for the hint, where more than the source is compared.
    """
    changed = changed_parts(known, identity)
    if not changed:
        return
    hint = _CHANGED_HINT if standing is None or not standing.is_in_use else _IN_USE_HINT
    if standing is not None and not standing.is_live and "function" in known and all(map(is_of_function, changed)):
        hint = _REPLAY_HINT + hint
    if "function" in changed and known.get("function", "").startswith(OWN_PROCESS):
        hint = _OWN_PROCESS_HINT + hint
    raise SourceChangedError(
        f"this is not the migration that was started; changed since: {', '.join(changed)}", hint=hint
    )


def changed_parts(known: Mapping[str, str], identity: Mapping[str, str]) -> list[str]:
    """The names of the parts of these identities that differ, of the parts that are given."""
    are_compared = {name.startswith(_STORE) for name in identity} or {True}
    names = {name for name in (*known, *identity) if name.startswith(_STORE) in are_compared}
    return sorted(name for name in names if known.get(name) != identity.get(name))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class RetiredStores:
    """Distinguishes old stores from new ones, as a switch may have put an old store in the place of a new one."""

    application: Path
    standing: Standing
    names: frozenset[str] = frozenset()
    """RocksDB's identities of the old stores in the ledger."""

    @cached_property
    def runs(self) -> frozenset[str]:
        """The runs in the ledger; none if it was damaged, as lost rows may have recorded a switch."""
        is_whole = not (self.standing.home / LEDGER_DAMAGED).exists()
        return frozenset(row.run_id for row in self.standing.rows) if is_whole else frozenset()

    def may_hold(self, run: str, partition: StorePartition, plan: Plan | None) -> bool:
        """Whether the folder of a new store may hold the only copy of the old one.

        It does not if the ledger and the store show that a run made it, or if the old one is in its own place.
        """
        home = self.standing.home
        folder = home / NEW / run / partition.id
        found = rocksdb_identities(folder)
        taken = rocksdb_identities(home / SNAPSHOT / partition.id)
        if not found.isdisjoint(taken | self.names):
            return True
        if not found or self._is_made_by(run, folder, partition if plan is None else plan.new_partition(partition)):
            return False
        return taken.isdisjoint(rocksdb_identities(self.application / partition.path))

    def _is_made_by(self, run: str, folder: Path, partition: StorePartition) -> bool:
        known = self.standing.states.get(folder)
        if known is None:
            return run in self.runs
        try:
            return store_state(partition.below(folder), known).content == known.content
        except (RefusedError, FileNotFoundError, NotADirectoryError):
            return False
