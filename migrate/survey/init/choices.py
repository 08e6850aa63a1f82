"""What `init` chooses: a store, a format, a name, a work_dir. Where a choice would be a guess, it asks."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formats import Format, UnknownFormatError, conversion_problem, get_format
from migrate.batch.preflight.places import check_target
from migrate.batch.source.source import find_source
from migrate.errors import RefusedError, SpecError
from migrate.spec.loading import parse_spec
from migrate.spec.spec import Spec
from migrate.survey.databases import Place, database_report
from migrate.survey.inspection import inspect
from migrate.survey.likeness import could_be, formats_of, hint, likeness_of
from migrate.survey.locate import Located
from migrate.survey.report import DatabaseReport, StoreReport
from migrate.survey.task_trees import parts_of
from migrate.systems import SYSTEMS

_WORK_DIR = "stateferry-work"
_ASKED = "the spec that was asked for"


def known_format(format_id: str) -> Format:
    """Raises SpecError naming the nearest known one."""
    try:
        return get_format(format_id)
    except UnknownFormatError as error:
        raise SpecError(str(error), hint="stateferry formats lists them") from error


def choose_store(located: Located, store: str | None, target: Format) -> str | None:
    """The one that is named, or the only one that could become `target`; None: the directory is one RocksDB directory.

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
    stores = {part.store for part in parts_of(located.application) if part.is_segment == target.is_segmented}
    if len(stores) == 1:
        return stores.pop()
    raise _which_store(located.path, stores, target)


def _which_store(application: Path, names: set[str], target: Format) -> SpecError | RefusedError:
    """All of them, with their counts."""
    if not names:
        kind = "windowed or session" if target.is_segmented else "key-value"
        return RefusedError(
            f"{application} holds no {kind} store, which {target.id} is", hint="stateferry inspect shows what is there"
        )
    stores = [store for store in inspect(application).stores if store.name in names]
    listed = "\n".join(f"  - {_in_words(store)}" for store in stores)
    return SpecError(f"{application} holds several stores:\n{listed}", hint="say which: --store NAME")


def is_segmented(located: Located, store: str | None) -> bool:
    """Whether the store's RocksDB directories are segments, by their names."""
    if located.application is None:
        return False
    return any(part.is_segment for part in parts_of(located.application) if part.store == store)


def _in_words(store: StoreReport) -> str:
    size = f"{store.records:,} records" if store.exact else f"about {store.records:,} records"
    formats = " or ".join(store.formats) or "of no known format"
    count = len(store.store_partitions)
    return f"{store.name}: {size} in {count} store partition{'s' if count > 1 else ''}, {formats}"


def choose_format(
    located: Located, store: str | None, databases: Mapping[Path, DatabaseReport], target: Format
) -> Format:
    """The one format whose column families the store has, that a record of it could be of and that becomes `target`.

    Raises SpecError where there are more, or none.
    """
    found = tuple(databases.values())
    by_place = None if located.application is None else is_segmented(located, store)
    common: Sequence[str] = formats_of(found, system=located.system, is_segmented=by_place)
    if len(common) > 1:
        possible = [each for each in common if conversion_problem(get_format(each), target) is None]
        common = could_be(possible or common, found)
    if len(common) == 1:
        return get_format(common[0])
    what = f"the store {store!r}" if store is not None else str(located.path)
    there = ", ".join(dict.fromkeys(family.name for database in found for family in database.families))
    if common:
        told = hint(likeness_of(found, common))
        raise SpecError(
            f"the column families of {what} ({there}) fit more than one format: {', '.join(common)}",
            hint=f"say which it is: {' or '.join(f'--from {format_id}' for format_id in common)}"
            + (f" ({told})" if told else ""),
        )
    kinds = (system.unsupported_kind(store, there.split(", ")) for system in SYSTEMS)
    if (kind := next(filter(None, kinds), None)) is not None:
        raise RefusedError(f"{what} is {kind.name}, which cannot be converted: {kind.reason}", hint=kind.instead)
    raise SpecError(
        f"the column families of {what} ({there}) are those of no known format of {located.system}",
        hint="stateferry formats lists what is known; stateferry inspect shows what is there",
    )


def others_of_format(located: Located, store: str | None, source: Format) -> tuple[str, ...]:
    """Other stores of the application that can only be of this format, by their column families and first records."""
    if store is None or located.application is None:
        return ()
    found: dict[str, bool] = {}
    system = located.application.system
    for part in parts_of(located.application):
        is_its_own = (system.unsupported_kind(part.store) or system.likely_unsupported(part.store)) is not None
        if part.store != store and part.is_segment == source.is_segmented and not is_its_own:
            report = [database_report(Place(part.directory, str(part.directory)), digest=False)]
            fitting = formats_of(report, system=source.system, is_segmented=part.is_segment)
            fits = could_be(fitting, report) == [source.id]
            found[part.store] = found.get(part.store, True) and fits
    return tuple(sorted(name for name, fits in found.items() if fits))


@dataclass(frozen=True, slots=True)
class SpecPaths:
    """Paths as the spec's file names them."""

    folder: Path
    """Of that file."""
    is_relative: bool
    """As the one on the command line was."""

    def text(self, path: Path) -> str:
        """An absolute path, relative to the folder where that was wanted. Raises SpecError for what is no UTF-8."""
        relative = os.path.relpath(path, self.folder)
        # `~` would be taken for somebody's home, and pathlib takes `./` away again.
        chosen = relative if self.is_relative and not relative.startswith("~") else str(path)
        try:
            chosen.encode("utf-8")
        except UnicodeEncodeError as error:
            raise SpecError(f"{chosen!r} is not UTF-8, as a spec is", hint="give it another name") from error
        return chosen

    def given(self, path: str | Path) -> str:
        """Another one from the command line: relative to the folder if it was relative."""
        return SpecPaths(self.folder, is_relative=not Path(path).is_absolute()).text(Path(path).resolve())


def choose_work_dir(content: dict[str, Any], paths: SpecPaths, given: str | None, located: Located) -> tuple[Spec, str]:
    """The spec with a work_dir and a name that are free, and what a run would object to all the same.

    Raises RefusedError for a work_dir or a target's path that was given and cannot serve.
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
    """A name that was not given becomes one under which no migration has begun yet."""
    if "name" in content:
        return parse_spec({**content, "work_dir": work_dir}, base_dir=paths.folder, where=_ASKED)
    first = _name(content)
    number = 1
    while True:
        name = first if number == 1 else f"{first}-{number}"
        spec = parse_spec({**content, "name": name, "work_dir": work_dir}, base_dir=paths.folder, where=_ASKED)
        if not spec.home.exists():
            return spec
        number += 1


def _name(content: dict[str, Any]) -> str:
    """Of the store and the target's layout, in the characters that a name may have."""
    store = content["source"].get("store") or Path(content["source"]["path"]).name
    layout = content["target"]["format"].partition(".")[2]
    return re.sub("[^a-z0-9]+", "-", f"{store}-to-{layout}".lower()).strip("-")
