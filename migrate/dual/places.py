"""Where the old and the new store lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from formats import Format, conversion_problem
from migrate.errors import SpecError
from migrate.stores.rocksdb import DEFAULT_FAMILY


@dataclass(frozen=True, slots=True)
class Places:
    """Which directory and which column family hold the old and the new store."""

    directory: Path
    old_directory: Path
    source: Format
    target: Format
    source_family: str
    target_family: str

    @property
    def is_one_database(self) -> bool:
        """Both in one RocksDB directory."""
        return self.directory == self.old_directory

    @property
    def directories(self) -> list[Path]:
        """The new store's first."""
        return [self.directory] if self.is_one_database else [self.directory, self.old_directory]


def find_places(
    path: Path, old_path: Path | None, source: tuple[Format, str | None], target: tuple[Format, str | None]
) -> Places:
    """`source`, `target`: the column family is named for formats that hold any.

    Raises SpecError where the two stores would be one and the same, or cannot become each other.
    """
    _check_formats(source[0], target[0])
    directory = path.resolve()
    places = Places(
        directory=directory,
        old_directory=directory if old_path is None else old_path.resolve(),
        source=source[0],
        target=target[0],
        source_family=_family(*source, "source_family"),
        target_family=_family(*target, "target_family"),
    )
    if old_path is not None and places.is_one_database:
        raise SpecError(f"the old and the new store are both in {path}", hint="leave old_path out: one database")
    if places.is_one_database and places.source_family == places.target_family:
        raise SpecError(
            f"{places.source.id} and {places.target.id} both keep their records in {places.source_family!r}",
            hint="name another for the new store, target_family=..., or another directory for the old, old_path=...",
        )
    return places


def _check_formats(source: Format, target: Format) -> None:
    problem = conversion_problem(source, target)
    if problem is None and "versioned" in (source.kind, target.kind):
        problem = "a versioned store keeps a key's values in several records, which the adapter does not follow"
    for known in (source, target):
        if problem is None and known.metadata_keys:
            problem = f"{known.id} has its system's own entries among the records, which the adapter does not know"
    if problem is not None:
        raise SpecError(
            problem, hint="name formats of one kind; the batch migration (stateferry run SPEC) knows more of them"
        )


def _family(known: Format, named: str | None, argument: str) -> str:
    own = known.column_families
    if own is None:
        return named or DEFAULT_FAMILY
    if len(own) != 1 or (named is not None and named != own[0]):
        raise SpecError(f"{known.id} keeps its records in {', '.join(own)}", hint=f"leave {argument} out")
    return own[0]
