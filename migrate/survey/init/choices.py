"""The choices of `init`: store, format, name, work_dir. It guesses nothing: errors list the options."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from formats import Format, conversion_problem, get_format
from migrate.batch.preflight.places import check_target
from migrate.batch.source.source import find_source
from migrate.errors import RefusedError, SpecError
from migrate.model.units import plural
from migrate.spec.loading import parse_spec
from migrate.spec.spec import Spec
from migrate.survey.applications import databases_of
from migrate.survey.databases import Place, database_report
from migrate.survey.inspection import inspect
from migrate.survey.likeness import formats_of, hint, likeness_of, possible_formats
from migrate.survey.locate import Located
from migrate.survey.report import DatabaseReport, StoreReport
from migrate.systems import SYSTEMS

_WORK_DIR = "stateferry-work"
_REQUESTED = "the requested spec"


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
    raise _no_single_store(located.path, names, target)


def _no_single_store(application: Path, names: set[str], target: Format) -> SpecError | RefusedError:
    if not names:
        kind = "windowed or session" if target.is_segmented else "key-value"
        return RefusedError(
            f"{application} holds no {kind} store, which {target.id} is", hint="stateferry inspect shows what is there"
        )
    stores = [store for store in inspect(application).stores if store.name in names]
    listed = "\n".join(f"  - {_in_words(store)}" for store in stores)
    return SpecError(f"{application} holds several stores:\n{listed}", hint="choose one with --store NAME")


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
        about_records = hint(likeness_of(found, common))
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
