"""`init`: write a commented spec for a directory. No other file is written."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any

from formats import Conversion
from migrate.batch.preflight.conversion import check_possible
from migrate.batch.source.source import Source, find_source
from migrate.errors import SpecError, StoreLockedError, system_errors_explained
from migrate.model.store_partition import StorePartition
from migrate.model.values import Report
from migrate.spec.allowed import must_be_allowed
from migrate.spec.loading import parse_spec
from migrate.spec.spec import Spec
from migrate.survey.databases import Place, database_report
from migrate.survey.init.choices import (
    SpecPaths,
    choose_format,
    choose_store,
    choose_work_dir,
    is_segmented,
    others_of_format,
)
from migrate.survey.init.template import SpecComments, spec_text
from migrate.survey.locate import Located, locate
from migrate.survey.report import DatabaseReport
from migrate.systems import STANDALONE, known_format
from migrate.systems.families import family_mappings

DEFAULT_OUTPUT = Path("migration.toml")


class InitReport(Report):
    """The spec, and the facts that it was made from."""

    spec: Path | None
    """The file that was written; None: no file was requested."""
    text: str
    name: str
    source: Path
    store: str | None
    source_format: str
    target_format: str
    store_partitions: tuple[str, ...]
    records: int
    """RocksDB's estimate."""
    work_dir: Path
    must_be_allowed: tuple[str, ...]
    """Names that `[conversion] allow` must hold before a run starts."""
    note: str
    """Why `source` is not the directory that was named; empty: it is."""
    warnings: tuple[str, ...]
    next_step: str


@system_errors_explained()
def init_spec(
    path: str | Path,
    *,
    to: str,
    store: str | None = None,
    source_format: str | None = None,
    output: str | Path | None = DEFAULT_OUTPUT,
    name: str | None = None,
    work_dir: str | Path | None = None,
    target_path: str | Path | None = None,
) -> InitReport:
    """Find the application's directory around `path`, choose a store and a format, and write the spec to `output`.

    Args:
        path: a state directory, a directory above or inside one, or a RocksDB directory; nothing in it is changed.
        to: the new store's format id.
        store: the store to migrate; None: the only one that there is.
        source_format: the old store's format id; None: the only one that fits its column families and records.
        output: the spec's file, which must not exist; None: write no file, the text is in the report.
        name: the migration's name; None: made from the store and the format.
        work_dir: a directory for the migration's files, on the state's file system; None: one that can be used.
        target_path: publish a complete new state directory there; None: exchange the stores in place (`cutover`).

    Raises:
        SpecError: `output` exists, or a store or a format must be named.
        RefusedError: no store can be migrated, or a named directory cannot be used.
    """
    target = known_format(to, Path(path))
    named = None if source_format is None else known_format(source_format, Path(path))
    file = None if output is None else Path(output)
    paths = SpecPaths(_folder_for(file), is_relative=not Path(path).is_absolute())
    is_standalone = named is not None and named.system == STANDALONE.name
    located = locate(Path(path), store=store, is_standalone=is_standalone)
    _check_outside(file, located)
    wanted = choose_store(located, store, target)
    databases = _databases(located, wanted)
    source = named or choose_format(located, wanted, databases, target)
    for directory, report in databases.items():
        family_mappings(tuple(family.name for family in report.families), source, target, directory)
    content: dict[str, Any] = {} if name is None else {"name": name}
    content["source"] = {"format": source.id, "path": paths.text(located.path)} | ({"store": wanted} if wanted else {})
    content["target"] = {"format": target.id} | ({} if target_path is None else {"path": paths.given(target_path)})
    check_possible(
        parse_spec({"name": "x", "work_dir": "x", **content}, base_dir=paths.folder), Conversion(source, target)
    )
    spec, objection = choose_work_dir(content, paths, None if work_dir is None else paths.given(work_dir), located)
    found = _comments(spec, located, databases, objection, paths)
    text = spec_text(spec, found)
    assert parse_spec(tomllib.loads(text), base_dir=paths.folder) == spec
    if file is not None:
        _write(file, text)
    return InitReport(
        spec=None if file is None else file.resolve(),
        text=text,
        name=spec.name,
        source=located.path,
        store=wanted,
        source_format=source.id,
        target_format=target.id,
        store_partitions=found.store_partitions,
        records=found.records,
        work_dir=spec.resolve(spec.work_dir),
        must_be_allowed=must_be_allowed(Conversion(source, target)),
        note=located.note,
        warnings=found.warnings,
        next_step=f"stateferry plan {shlex.quote(str(file or DEFAULT_OUTPUT))}",
    )


def _folder_for(file: Path | None) -> Path:
    """The folder of the spec's file. Raises SpecError where the file exists, or the folder does not."""
    if file is None:
        return Path.cwd()
    if file.exists() or file.is_symlink():
        raise SpecError(f"{file} exists already", hint="name another file with --output, or move it away")
    if not file.parent.is_dir():
        raise SpecError(f"{file.parent} is not a directory", hint="create it, or name another file with --output")
    return file.resolve().parent


def _check_outside(file: Path | None, located: Located) -> None:
    if file is not None and file.resolve().is_relative_to(located.path):
        raise SpecError(
            f"{file.resolve()} would lie inside the state directory {located.path}",
            hint="name a file elsewhere with --output, or start from another directory",
        )


def _databases(located: Located, store: str | None) -> dict[Path, DatabaseReport]:
    """A report of every RocksDB directory of the store. Raises RefusedError for none, or an unreadable one."""
    system = located.application.system if located.application is not None and store is not None else STANDALONE
    partitions: list[StorePartition] = system.find(
        located.path, () if store is None else (store,), is_segmented=is_segmented(located, store)
    )
    directories = [path for partition in partitions for path in partition.directories(located.path).values()]
    return {path: database_report(Place(path, str(path))) for path in directories}


def _in_use(source: Source) -> str:
    """A warning that the application runs, or ""."""
    try:
        source.check_stopped()
    except StoreLockedError as error:
        return f"{error.message}: stop the application before the run"
    return ""


def _comments(
    spec: Spec, located: Located, databases: dict[Path, DatabaseReport], objection: str, paths: SpecPaths
) -> SpecComments:
    known = spec.source_format
    families = [family for report in databases.values() for family in report.families]
    source = find_source(spec)
    source.check_files()
    source.check_options()
    return SpecComments(
        store_partitions=tuple(partition.id for partition in source.partitions),
        records=sum(family.records for family in families if family.name not in known.metadata_families),
        column_families=tuple(dict.fromkeys(family.name for family in families)),
        other_stores=others_of_format(located, spec.source.store, known),
        target_path=paths.text(located.path.with_name(f"{located.path.name}-migrated")),
        warnings=tuple(filter(None, (*source.warnings(), _in_use(source), objection))),
    )


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError as error:
        raise SpecError(f"{file} exists already", hint="name another file with --output, or move it away") from error
    except OSError:
        file.unlink(missing_ok=True)
        raise
