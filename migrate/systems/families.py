"""Which column family of the new store each one of the old store becomes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from formats import Format
from formats.format import in_order
from migrate.errors import RefusedError
from migrate.model.plan import FamilyMapping
from migrate.stores.rocksdb.database import DEFAULT_FAMILY
from migrate.systems import get_system


def family_mappings(
    families: tuple[str, ...], source: Format, target: Format, directory: Path
) -> tuple[FamilyMapping, ...]:
    """The mapping of column families of records. Raises RefusedError unless they are the source format's (I10)."""
    data = [family for family in families if family not in source.metadata_families]
    if source.column_families is None:
        names = data
    else:
        names = list(source.column_families)
        older = [family.name for family in source.older_families]
        wrong = [f"has no column family {name!r}" for name in names if name not in data]
        wrong += [f"has a column family {name!r}" for name in sorted({*data} - {*names, *older, DEFAULT_FAMILY})]
        if wrong:
            raise _other_format(directory, source, wrong[0], families)
    if target.column_families is None:
        return tuple(FamilyMapping(source=name, target=name) for name in names)
    if len(names) != len(target.column_families):
        raise RefusedError(
            f"{directory} has {len(names)} column families of records ({', '.join(names)}), "
            f"{target.id} holds {len(target.column_families)}",
            hint="name a target format that holds any column family, such as rocksdb.raw",
        )
    return tuple(
        FamilyMapping(source=name, target=family) for name, family in zip(names, target.column_families, strict=True)
    )


def _other_format(directory: Path, source: Format, what: str, families: tuple[str, ...]) -> RefusedError:
    kind = get_system(source.system).unsupported_kind(families=families)
    if kind is not None:
        return RefusedError(
            f"{directory} belongs to {kind.name}, which cannot be converted: {kind.reason}", hint=kind.instead
        )
    return RefusedError(
        f"{directory} is not {source.id}: it {what} (it has: {', '.join(families)})",
        hint="name the format that the store has in [source] format; `stateferry inspect` shows what is there",
    )


def families_to_carry(target: Format, version: str | None, there: Iterable[str]) -> tuple[str, ...]:
    """The system's own families that the new store takes over; `version`: the one that will open it."""
    since = {} if version is None else dict(target.checked_version(version).families)
    return tuple(
        family
        for family in there
        if family in target.metadata_families
        and (version is None or family not in since or in_order(version) >= in_order(since[family]))
    )
