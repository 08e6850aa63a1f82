"""The migration spec: a TOML file or an object, validated; unknown keys are refused with the nearest known one."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, model_validator

from formats import Format, UnknownFormatError, get_format
from migrate.errors import SpecError
from migrate.spec.allowed import CHANGELOG, DROP
from migrate.spec.changelog_source import RESTORED, check_changelog_source
from migrate.spec.mistakes import NAME, check_new_names, names_in_order, spec_error
from migrate.spec.moved_stores import check_moved_stores, check_no_effect, check_partitions
from migrate.spec.rows_source import check_rows_source, with_rows_source
from migrate.spec.sections import (
    ChangelogSection,
    ConversionSection,
    RunSection,
    SourceSection,
    SpecSection,
    TargetSection,
)

_NO_SEGMENTS = "only windowed and session stores, by name, have segments by time"
_NOT_SEGMENTED = {
    "versioned": "a versioned store's history stays in the segments that hold it: the application alone sets how long "
    "it is kept, and the time that a segment covers cannot be changed yet"
}


class Spec(SpecSection):
    """One migration: as `load_spec` reads it from a file, or built in code with the same keys.

    A section is a dict of its keys, or an object of its class; `[conversion] function` can be the function itself, for
    runs without Spark. Relative paths are relative to `base_dir`: the folder of the spec's file or, in code, the
    working directory. Hints name commands: where one says `stateferry run SPEC`, code calls `run(spec)`.

    Raises SpecError, which names every mistake and the nearest known key.
    """

    name: Annotated[str, Field(pattern=NAME)]
    work_dir: Path
    """Where plan, ledger, snapshot, chunks and new stores are, in a folder of the migration's name."""
    source: SourceSection
    target: TargetSection
    conversion: ConversionSection = ConversionSection()
    changelog: ChangelogSection | None = None
    run: RunSection = RunSection()
    base_dir: Annotated[Path, AfterValidator(Path.absolute)] = Field(default_factory=Path.cwd, exclude=True)

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            work_dir: str | Path,
            target: TargetSection | dict[str, Any],
            source: SourceSection | dict[str, Any] | None = ...,
            conversion: ConversionSection | dict[str, Any] = ...,
            changelog: ChangelogSection | dict[str, Any] | None = ...,
            run: RunSection | dict[str, Any] = ...,
            base_dir: str | Path = ...,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _rows_are_a_source(cls, spec: object) -> object:
        return with_rows_source(spec) if isinstance(spec, dict) else spec

    @property
    def source_format(self) -> Format:
        """The old store's format."""
        return get_format(self.source.format)

    @property
    def target_format(self) -> Format:
        """The new store's format."""
        return get_format(self.target.format)

    @property
    def source_path(self) -> Path:
        """The application's state directory, or one RocksDB directory."""
        if self.source.is_made:
            return self.home / RESTORED / self._application
        return self.resolve(self.source.path)

    @property
    def _application(self) -> str:
        given = None if self.changelog is None else self.changelog.application_id
        if self.source.rows and self.target.path is not None:
            return self.target.path.name
        return given or self.source.path.name

    @property
    def target_path(self) -> Path | None:
        """Where the complete new state directory is published; None: `cutover` takes the old one's place."""
        return None if self.target.path is None else self.resolve(self.target.path)

    @property
    def partitioner(self) -> str:
        """What put each key into its store partition: a known partitioner's name, or `module:function`."""
        return self.source.partitioner or "murmur2"

    def of_store(self, name: str) -> Spec:
        """The spec of one store: this one, unless a store has a format of its own, which it keeps."""
        if not (moved := {store.name: store for store in self.source.moved_stores}):
            return self
        new_names = dict(zip(self.source.store_names, self.target.store_names, strict=False))
        old: dict[str, object] = {"store": name, "stores": ()}
        new: dict[str, object] = {"store": new_names.get(name), "stores": ()}
        conversion = self.conversion
        if (own := moved.get(name)) is not None:
            old |= own.model_dump(exclude={"name"})
            new["format"] = own.format
            conversion = ConversionSection(allow=conversion.allow)
        source, target = self.source.model_copy(update=old), self.target.model_copy(update=new)
        return self.model_copy(update={"source": source, "target": target, "conversion": conversion})

    @property
    def home(self) -> Path:
        """The migration's own folder in the work_dir: plan, ledger, snapshot, chunks, new stores."""
        return self.resolve(self.work_dir) / self.name

    @property
    def has_segments(self) -> bool:
        """Whether each store partition of the source is a directory of RocksDB directories, by time."""
        return self.source_format.is_segmented and bool(self.source.store_names)

    @property
    def most_dropped(self) -> int | None:
        """How many records the function may drop; None: any number, or a share of them, or there is no function."""
        run = self.run
        is_allowed = DROP in self.conversion.allow or run.max_dropped_share is not None
        is_bounded = run.max_dropped is not None or is_allowed or self.conversion.function is None
        return run.max_dropped if is_bounded else 0

    def dropped_too_many(self, dropped: int, records: int) -> str:
        """Which bound is exceeded if the function drops so many values of so many records; empty: it is allowed."""
        most, share = self.most_dropped, self.run.max_dropped_share
        if most is not None and dropped > most:
            return f"[run] max_dropped allows {most:,}" if self.run.max_dropped is not None else "nothing allows that"
        if share is not None and share < 1 and dropped > share * records:
            return f"[run] max_dropped_share allows {share:.2%}"
        return ""

    def resolve(self, path: Path) -> Path:
        """`path`, seen from the spec file."""
        return Path(os.path.realpath(self.base_dir / path.expanduser()))  # resolve() raises for a link to itself

    def _check_retentions(self) -> None:
        for name, section in (("source", self.source), ("target", self.target)):
            given = [key for key in ("retention_ms", "segment_ms") if getattr(section, key) is not None]
            is_restored = section is self.source and self.source.changelog and self.source_format.kind == "versioned"
            if given and not self.has_segments and not is_restored:
                why = _NOT_SEGMENTED.get(self.source_format.kind, _NO_SEGMENTS)
                raise ValueError(f"[{name}] {given[0]}: {why}")
            if given == ["segment_ms"]:
                raise ValueError(f"[{name}] segment_ms has no effect without retention_ms")
        if self.target.retention_ms is not None and self.source.retention_ms is None:
            raise ValueError(
                "[target] retention_ms needs [source] retention_ms (and segment_ms, where the application sets it): "
                "they describe how the old store's segments were made"
            )
        source, target = self.source_format, self.target_format
        if source.system != target.system and self.has_segments and target.is_segmented:
            for name, section in (("source", self.source), ("target", self.target)):
                if section.retention_ms is None:
                    raise ValueError(
                        f"[{name}] retention_ms is needed (and segment_ms, where the application sets it): "
                        f"{source.system} and {target.system} cut segments differently"
                    )

    @model_validator(mode="after")
    def _a_snapshot_is_cut_over(self) -> Spec:
        if self.run.source == "snapshot" and self.target.path is not None:
            raise ValueError(
                '[run] source = "snapshot" goes with `cutover`, not with [target] path: all else in the state '
                "directory moves on meanwhile"
            )
        return self

    @model_validator(mode="after")
    def _formats_are_known(self) -> Spec:
        old, new = self.source.format, self.target.format
        for section, format_id, beside in (("source", old, new), ("target", new, old)):
            try:
                get_format(format_id, beside)
            except UnknownFormatError as error:
                raise ValueError(f"[{section}] {error}") from error
        check_rows_source(self.source, self.target, self.conversion, self.changelog)
        self._check_retentions()
        if self.target.version is not None:
            self.target_format.checked_version(self.target.version)
        return self

    @model_validator(mode="after")
    def _new_stores_have_changelogs(self) -> Spec:
        if isinstance(table := self.target.stores, dict):  # which is kept as the list that it stands for
            names = names_in_order(self.source.store_names, table)
            object.__setattr__(self, "target", self.target.model_copy(update={"stores": names}))
        without = None if CHANGELOG in self.conversion.allow else "none"
        way = without if self.changelog is None else self.changelog.way
        check_new_names(self.source.store_names, self.target.store_names, way)
        if self.target.partitions is None:
            check_no_effect(self.source)
        else:
            check_partitions(self.source, self.target, self.changelog)
            check_moved_stores(self.source)
        return self

    @model_validator(mode="after")
    def _a_source_may_be_a_changelog(self) -> Spec:
        check_changelog_source(self.source, self.target, self.changelog)
        return self

    @model_validator(mode="after")
    def _paths_are_text(self) -> Spec:
        for path in (self.home, self.source_path, self.target_path):
            try:
                str(path).encode()
            except UnicodeEncodeError as error:
                raise SpecError(
                    f"the path {str(path)!r} is not UTF-8, which the ledger and reports are written in",
                    hint="rename that directory",
                ) from error
        return self


def load_spec(path: str | Path) -> Spec:
    """Read and validate a spec file: TOML in UTF-8, with the keys in docs/operations.md.

    Args:
        path: the file; relative paths in it are relative to its folder.

    Raises:
        SpecError: the file cannot be read, or has mistakes: each is named, with the nearest known key.
    """
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        hint = "name its TOML file: `stateferry init` writes one" if file.is_dir() else "check the path"
        raise SpecError(f"cannot read the spec {file}: {error.strerror}", hint=hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{file} is not valid TOML: {error}", hint="fix it there; a spec is text in UTF-8") from error
    return parse_spec(content, base_dir=file.resolve().parent, where=str(file))


def parse_spec(content: dict[str, Any], *, base_dir: Path, where: str = "the spec") -> Spec:
    """The spec of parsed TOML. Raises SpecError."""
    if "base_dir" in content:
        raise SpecError(f"{where}: unknown key 'base_dir'", hint="remove it: paths are relative to the spec file")
    try:
        return Spec.model_validate({**content, "base_dir": base_dir})
    except ValidationError as error:
        raise spec_error(error, Spec, where=where, hint="fix them and run the command again") from error
