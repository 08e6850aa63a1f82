"""`init`: write a commented spec for a directory. No other file is written."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from formats import Conversion, Format, conversion_problem, get_format
from formats.likeness import hint
from migrate.batch.preflight.conversion_checks import check_possible
from migrate.batch.preflight.directories import check_target
from migrate.batch.source.source import Source, find_source
from migrate.errors import RefusedError, SpecError, StoreLockedError, system_errors_explained
from migrate.model.display import plural
from migrate.model.store_partition import StorePartition
from migrate.model.values import Report
from migrate.spec.allowed import must_be_allowed
from migrate.spec.spec import Spec, parse_spec
from migrate.stores.regular_files import check_directory
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.stores.rocksdb.unreadable import check_no_backup
from migrate.survey.applications import LocatedApplication, application_around, databases_of
from migrate.survey.databases import Place, database_report, formats_of, possible_formats, samples_of
from migrate.survey.inspect_report import DatabaseReport, StoreReport
from migrate.survey.inspection import WalkResult, inspect, migration_around, walk
from migrate.survey.spec_template import SpecComments, spec_text
from migrate.systems import STANDALONE, SYSTEMS, known_format
from migrate.systems.families import family_mappings

DEFAULT_OUTPUT = Path("migration.toml")
_WORK_DIR = "stateferry-work"
_REQUESTED = "the requested spec"
_NAME_IT = "name the application's state directory, <state.dir>/<application.id>, or one RocksDB directory"


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
    partitions: list[StorePartition] = system.layout.find(
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


def choose_store(located: Located, store: str | None, target: Format) -> str | None:
    """The named store, or the only one that could become `target`; None: a standalone RocksDB directory.

    Raises SpecError listing the stores where there are several, RefusedError where there is none.
    """
    if located.application is None:
        if store is not None:
            raise SpecError(
                f"{located.path} is one RocksDB directory, without an application whose stores have names",
                hint="leave --store out",
            )
        return None
    wanted = store or located.store
    if wanted is not None:
        return wanted
    names = {each.store for each in databases_of(located.application) if each.is_segment == target.is_segmented}
    if len(names) == 1:
        return names.pop()
    if not names:
        kind = "windowed or session" if target.is_segmented else "key-value"
        raise RefusedError(
            f"{located.path} holds no {kind} store, which {target.id} is", hint="stateferry inspect shows what is there"
        )
    listed = "\n".join(f"  - {_in_words(store)}" for store in inspect(located.path).stores if store.name in names)
    raise SpecError(f"{located.path} holds several stores:\n{listed}", hint="choose one with --store NAME")


def is_segmented(located: Located, store: str | None) -> bool:
    """Whether the store's RocksDB directories are segments, by their names."""
    if located.application is None:
        return False
    return any(each.is_segment for each in databases_of(located.application) if each.store == store)


def _in_words(store: StoreReport) -> str:
    size = ("" if store.exact else "about ") + plural(store.records, "record")
    formats = " or ".join(store.formats) or "of no known format"
    return f"{store.name}: {size} in {plural(len(store.store_partitions), 'store partition')}, {formats}"


def choose_format(
    located: Located, store: str | None, databases: Mapping[Path, DatabaseReport], target: Format
) -> Format:
    """The only format that fits the store by column families and a sample of its records, and can become `target`.

    Raises SpecError where there are several, or none; RefusedError for a store that cannot be converted.
    """
    found = tuple(databases.values())
    by_place = None if located.application is None else is_segmented(located, store)
    common: Sequence[str] = formats_of(found, system=located.system, is_segmented=by_place)
    if len(common) > 1:
        convertible = [each for each in common if conversion_problem(get_format(each), target) is None]
        common = possible_formats(convertible or common, found)
    if len(common) == 1:
        return get_format(common[0])
    what = f"the store {store!r}" if store is not None else str(located.path)
    there = ", ".join(dict.fromkeys(family.name for database in found for family in database.families))
    if common:
        about_records = hint(samples_of(found, common))
        raise SpecError(
            f"the column families of {what} ({there}) fit more than one format: {', '.join(common)}",
            hint=f"choose one: {' or '.join(f'--from {format_id}' for format_id in common)}"
            + (f" ({about_records})" if about_records else ""),
        )
    own = SYSTEMS if located.application is None else [located.application.system]
    kinds = (system.unsupported_kind(store, there.split(", ")) for system in own)
    if (kind := next(filter(None, kinds), None)) is not None:
        raise RefusedError(f"{what} is {kind.name}, which cannot be converted: {kind.reason}", hint=kind.instead)
    raise SpecError(
        f"the column families of {what} ({there}) are those of no known format of {located.system}",
        hint="stateferry formats lists what is known; stateferry inspect shows what is there",
    )


def others_of_format(located: Located, store: str | None, source: Format) -> tuple[str, ...]:
    """Other stores of the application that can only be of this format, by column families and a sample of records."""
    if store is None or located.application is None:
        return ()
    found: dict[str, bool] = {}
    system = located.application.system
    for each in databases_of(located.application):
        is_unsupported = (system.unsupported_kind(each.store) or system.likely_unsupported(each.store)) is not None
        if each.store != store and each.is_segment == source.is_segmented and not is_unsupported:
            report = [database_report(Place(each.directory, str(each.directory)))]
            fitting = formats_of(report, system=source.system, is_segmented=each.is_segment)
            fits = possible_formats(fitting, report) == [source.id]
            found[each.store] = found.get(each.store, True) and fits
    return tuple(sorted(name for name, fits in found.items() if fits))


@dataclass(frozen=True, slots=True)
class SpecPaths:
    """Writes paths into the spec's file."""

    folder: Path
    """The folder of the spec's file."""
    is_relative: bool
    """Write paths relative to the folder, as the path on the command line was relative."""

    def text(self, path: Path) -> str:
        """The text for an absolute path. Raises SpecError for a path that is not UTF-8."""
        relative = os.path.relpath(path, self.folder)
        # `~` would be read as a home directory, and pathlib removes a leading `./`.
        chosen = relative if self.is_relative and not relative.startswith("~") else str(path)
        try:
            chosen.encode("utf-8")
        except UnicodeEncodeError as error:
            raise SpecError(f"{chosen!r} is not UTF-8, as a spec is", hint="give it another name") from error
        return chosen

    def given(self, path: str | Path) -> str:
        """The text for another path from the command line: relative if that path was."""
        return SpecPaths(self.folder, is_relative=not Path(path).is_absolute()).text(Path(path).resolve())


def choose_work_dir(content: dict[str, Any], paths: SpecPaths, given: str | None, located: Located) -> tuple[Spec, str]:
    """(spec with an unused work_dir and name, why a run would be refused all the same, or "").

    Raises RefusedError for a given work_dir or target path that cannot be used.
    """
    if given is not None:
        spec = _with(content, given, paths)
        check_target(spec, find_source(spec))
        return spec, ""
    refused: list[tuple[Spec, RefusedError]] = []
    for folder in (paths.folder, located.path.parent.parent, located.path.parent):
        spec = _with(content, paths.text(folder / _WORK_DIR), paths)
        try:
            check_target(spec, find_source(spec))
        except RefusedError as error:
            refused.append((spec, error))
        else:
            return spec, ""
    spec, refusal = refused[0]
    if spec.target_path is not None:
        raise refusal
    return spec, f"a run would be refused: {refusal.message}; {refusal.hint}"


def _with(content: dict[str, Any], work_dir: str, paths: SpecPaths) -> Spec:
    """The spec of `content`; a name that was not given is chosen so that no migration has it yet."""
    default = _default_name(content)
    names = chain([default], (f"{default}-{number}" for number in count(2)))
    specs = (
        parse_spec({"name": name, **content, "work_dir": work_dir}, base_dir=paths.folder, where=_REQUESTED)
        for name in names
    )
    return next(spec for spec in specs if "name" in content or not spec.home.exists())


def _default_name(content: dict[str, Any]) -> str:
    """A name from the store and the target's layout, in the characters that a name may have."""
    store = content["source"].get("store") or Path(content["source"]["path"]).name
    layout = content["target"]["format"].partition(".")[2]
    return re.sub("[^a-z0-9]+", "-", f"{store}-to-{layout}".lower()).strip("-")


@dataclass(frozen=True, slots=True)
class Located:
    """The directory, and perhaps the store, for the spec's [source]."""

    path: Path
    store: str | None
    """The store whose directory was named; None: an application's directory or a standalone RocksDB directory was."""
    application: LocatedApplication | None
    """None: `path` is a standalone RocksDB directory."""
    note: str = ""
    """Why `path` is not the directory that was named."""

    @property
    def system(self) -> str | None:
        """The owning system; None: not known."""
        return None if self.application is None else self.application.system.name


def locate(path: Path, *, store: str | None, is_standalone: bool) -> Located:
    """Find the application of `path`, or the only one below it.

    `is_standalone`: `path` is a standalone RocksDB directory, even inside an application's directory.

    Raises RefusedError with the directories to name instead; SpecError where `path` belongs to a store other than
    `store`.
    """
    check_directory(path, hint=_NAME_IT)
    root = path.resolve()
    check_no_backup(root)
    if is_standalone:
        return Located(root, None, None)
    if (home := migration_around(root)) is not None:
        raise RefusedError(f"{path} is Stateferry's own: the folder of the migration {home.name}", hint=_NAME_IT)
    if (application := application_around(root)) is not None:
        return _in_application(root, application, store)
    if is_rocksdb(root):
        return Located(root, None, None)
    return _below(path, walk(root, is_part=False))


def _in_application(root: Path, application: LocatedApplication, store: str | None) -> Located:
    home = application.path
    if root == home:
        return Located(root, None, application)
    own = next((each.store for each in databases_of(application) if each.partition_directory == root), None)
    inside = root.relative_to(home)
    if own is not None and store not in (None, own):
        raise SpecError(
            f"{root} belongs to the store {own!r}, but --store names {store!r}",
            hint=f"leave --store out, or name the application's directory {home}",
        )
    note = f"{inside} is part of the application {home.name}, all of whose tasks must be migrated together"
    return Located(home, own, application, note=note)


def _below(path: Path, found: WalkResult) -> Located:
    if len(found.applications) == 1:
        application = found.applications[0]
        note = f"the one application below {path} is {application.path.name}"
        return Located(application.path, None, application, note=note)
    if found.applications:
        names = ", ".join(str(path / each.path.relative_to(path.resolve())) for each in found.applications)
        raise RefusedError(f"{path} holds several applications", hint=f"name one: {names}")
    if found.others:
        hint = "`stateferry formats` lists what can be; a RocksDB directory alone can be migrated as rocksdb.raw"
        raise RefusedError(f"{found.others[0].path}: {found.others[0].sentence}", hint=hint)
    databases = [str(path / folder.relative_to(path.resolve())) for folder in found.databases[:8]]
    hint = f"name one of the RocksDB directories below: {', '.join(databases)}" if databases else _NAME_IT
    raise RefusedError(f"{path} is neither an application's state directory nor a RocksDB directory", hint=hint)
