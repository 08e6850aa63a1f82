"""`import`: a new store from the rows of a table, by the sorting run of an empty old store in the work_dir.

The table's version and files are recorded before anything is read for good, so that every run reads the same rows.
"""

from __future__ import annotations

from pathlib import Path

from migrate.batch.chunk.executor import executor_opener
from migrate.batch.context import Context
from migrate.batch.frame import command
from migrate.batch.home import IMPORTED_RECORD, claim
from migrate.batch.ledger.gates import Acceptance
from migrate.batch.preflight.conversion_checks import check_conversion
from migrate.batch.run import run_with
from migrate.batch.source.restored_source import IMPORT_AGAIN, import_record
from migrate.batch.source.source import source_system
from migrate.errors import RefusedError, SpecError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.reports import RunReport
from migrate.model.restored import ImportRecord
from migrate.model.store_partition import WHOLE, segment_name
from migrate.model.values import with_seal
from migrate.spec.spec import Spec
from migrate.stores.files import make_directories, remove_tree, table_directory, write_durably
from migrate.stores.rocksdb.writing import TableOptions, create_database

_MOST_DIRECTORIES = 20_000


@system_errors_explained()
def import_rows(
    spec: Spec,
    table: str | Path,
    *,
    version: int | None = None,
    master: str = "local[*]",
    unverified: bool = False,
    on_event: Listener = ignore,
) -> RunReport:
    """Make a new store from the rows of a Delta table. A killed call is continued by the same call, or by `run`.

    The columns are those in which `export` writes a store of the format, but for where a record belongs. A row whose
    value is null makes no record.

    Args:
        spec: a migration without [source], from `load_spec` or built in code.
        table: the directory of the table.
        version: which version of it; None: its newest. It stays the same for every run.
        master: a Spark master, such as "local[4]" or "spark://host:7077".
        unverified: accept a new store that was not verified.
        on_event: called with each `Event`, before the work goes on.

    Raises:
        SpecError: the spec has an old store; the table has other columns, or one of another type.
        RefusedError: there is no such table or version, a key is null, two rows have one key; nothing was published.
        ChunkFailedError: a row is no record of the format, or Spark fails.
        VerificationError: the new store differs from the rows.
        InterruptedMigrationError: the time budget is used up.
    """
    pin_table(Context(spec, on_event), table, version)
    return run_with(executor_opener(spec, master, 1), Context(spec, on_event, acceptance=Acceptance(unverified, None)))


@system_errors_explained()
def pin_table(context: Context, table: str | Path, version: int | None = None) -> None:
    """Check the table's rows, and record which they are; where that is done, check that they are asked for again."""
    spec, path = context.spec, table_directory(table)
    if not spec.source.rows:
        raise SpecError(
            "this migration has an old store, and `import` makes a new one from the rows of a table alone",
            hint="leave [source] out; [target] has path, store, format, partitions and subtopology (docs/rows.md)",
        )
    check_conversion(spec, context.conversion, context.ref)
    with command(context):
        record = import_record(spec)
        if record is not None:
            _check_same(record, path, version)
            return
        record = _found(context, path, version)
        claim(spec.home, spec.home.parent)
        _make_empty(spec, record)
        write_durably(spec.home / IMPORTED_RECORD, with_seal(record.model_dump_json(indent=1)).encode())


def _check_same(record: ImportRecord, path: Path, version: int | None) -> None:
    if str(path) != record.table or version not in (None, record.version):
        asked = path if version is None else f"{path}, version {version}"
        raise RefusedError(
            f"this migration imports version {record.version} of {record.table}, and not {asked}",
            hint=f"name that one to go on with it; to import another: {IMPORT_AGAIN}",
        )


def _found(context: Context, path: Path, version: int | None) -> ImportRecord:
    """What the table holds. Raises SpecError, RefusedError, CorruptionError."""
    from migrate.batch.plan.row_table import open_table, segment_ms, survey  # loads delta-rs
    from migrate.engine.rows.row_encoder import RowEncoder

    spec = context.spec
    encoder, table = RowEncoder(context.conversion.target), open_table(path, version)
    found = survey(table, encoder, segment_ms(spec))
    store, partitions = spec.source.store, spec.target.partitions
    assert store is not None
    assert partitions is not None
    if len(found.starts) * partitions > _MOST_DIRECTORIES:
        raise RefusedError(
            f"{table.name}: the rows belong in {len(found.starts):,} segments of each of {partitions} store partitions",
            hint="are their times in the right unit? leave out what is older than the retention",
        )
    return ImportRecord(
        table=str(path),
        table_id=table.id,
        version=table.version,
        files=found.files,
        columns={field.name: str(field.type) for field in table.schema},
        segments=tuple(segment_name(store, start) for start in found.starts),
    )


def _make_empty(spec: Spec, record: ImportRecord) -> None:
    """The old store without records: what the new one is planned from. Raises RefusedError for another system's."""
    system, store, partitions = source_system(spec), spec.source.store, spec.target.partitions
    assert store is not None
    assert partitions is not None
    assert spec.source.subtopology is not None
    families = spec.source_format.column_families
    assert families is not None
    remove_tree(spec.source_path)  # of a command that was killed before it recorded it
    for number in range(partitions):
        task = system.layout.task_name((spec.source.subtopology, number))
        if task is None or not system.can_repartition:
            raise RefusedError(
                f"a store of {system.title} cannot be made from rows yet",
                hint="those of Kafka Streams and Streamiz can",
            )
        place = spec.source_path / system.place(task, store, is_segmented=spec.has_segments)
        make_directories(place)
        for database in record.segments if spec.has_segments else (WHOLE,):
            create_database(place / database, {families[0]: TableOptions()}, {families[0]: []}, {})
