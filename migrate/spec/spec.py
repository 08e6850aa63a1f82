"""The migration spec: a TOML file or an object, validated; unknown keys are refused with the nearest known one."""

from __future__ import annotations

import os
import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from formats import Format, Function, UnknownFormatError, get_format
from migrate.errors import SpecError
from migrate.model.engine_choice import EngineSetting
from migrate.spec.allowed import CHANGELOG, DROP, Allowance
from migrate.spec.mistakes import (
    FUNCTION,
    NAME,
    TOPIC,
    VERSION,
    check_names,
    check_new_names,
    checked_bootstrap,
    names_in_order,
    spec_error,
)
from migrate.spec.serde_section import SerdeChangeSection

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|d)\s*")
_SIZE = re.compile(r"\s*\d*\.?\d+\s*[A-Za-z]*\s*")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_NO_SEGMENTS = "only windowed and session stores, by name, have segments by time"
_NOT_SEGMENTED = {
    "versioned": "a versioned store's history stays in the segments that hold it: the application alone sets how long "
    "it is kept, and the time that a segment covers cannot be changed yet"
}


def _duration(text: object) -> object:
    if isinstance(text, timedelta) and text >= timedelta(0):
        return text
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError('a duration is a number and a unit, like "90s", "45m", "2h" or "1d"')
    return timedelta(seconds=float(match[1]) * _SECONDS[match[2]])


def _size(text: object) -> object:
    """Refuse what pydantic would read in part, like "1 GB/s"."""
    if isinstance(text, str) and _SIZE.fullmatch(text) is None:
        raise PydanticCustomError("byte_size", "should be a size")
    return text


def _function(function: object) -> object:
    if not (function is None or callable(function) or isinstance(function, str)):
        raise PydanticCustomError("string_type", "should be text")
    if isinstance(function, str) and re.fullmatch(FUNCTION, function) is None:
        raise PydanticCustomError("function", "should name a function")
    return function


_AS_NAME = PlainSerializer(lambda function: function if isinstance(function, str) else None, return_type=str | None)
"""In the stored identity, which has a digest of its own of a function without a name."""
_Names = Annotated[
    Annotated[tuple[str, ...], Tag("list")] | Annotated[dict[str, str], Tag("table")],
    Discriminator(lambda names: "table" if isinstance(names, dict) else "list"),
]
Milliseconds = Annotated[int, Field(gt=0, lt=1 << 53)]


class _SpecSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, hide_input_in_errors=True)

    if not TYPE_CHECKING:  # type checkers derive the parameters from the fields

        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                where = type(self).__name__
                raise spec_error(error, type(self), where=where, hint="docs/operations.md has all keys") from error

        __init__.__pydantic_base_init__ = True  # a section inside a spec is validated with it, not by a call


class SourceSection(_SpecSection):
    """`[source]`: the old store."""

    format: str
    path: Path
    """The application's state directory, or one RocksDB directory."""
    store: str | None = None
    """The store's name; without it and `stores`, `path` is one RocksDB directory."""
    stores: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    """Task directories that were left behind when sub-topologies were renumbered: their stores are not migrated."""
    retention_ms: Milliseconds | None = None
    """The retention that a windowed or session store's segments were made with."""
    segment_ms: Milliseconds | None = None
    """The time that one segment covers, where the application sets it; otherwise the retention determines it."""

    @model_validator(mode="after")
    def _one_way_to_name_stores(self) -> SourceSection:
        check_names(self.store, self.stores)
        if self.leave_out and not self.store_names:
            raise ValueError("`leave_out` names task directories, and without a store `path` is one RocksDB directory")
        return self

    @property
    def store_names(self) -> tuple[str, ...]:
        """The stores to migrate; none: `path` is one RocksDB directory."""
        return self.stores if self.store is None else (self.store,)


class TargetSection(_SpecSection):
    """`[target]`: the new store."""

    format: str
    path: Path | None = None
    """Where a complete new state directory is published; None: `cutover` exchanges the stores in place."""
    store: str | None = None
    """The new store's name, where its changelog is a new topic; the old store and its changelog stay as they are."""
    stores: _Names = ()
    """The new names of `[source] stores`, in the same order; or a table of them, `old = "new"`."""
    retention_ms: Milliseconds | None = None
    """The new store's retention: if it differs from the old store's, records move to other segments."""
    segment_ms: Milliseconds | None = None
    version: Annotated[str, Field(pattern=VERSION)] | None = None
    """The version of the owning system that will open the new store, if known."""

    @model_validator(mode="after")
    def _one_way_to_name_stores(self) -> TargetSection:
        check_names(self.store, self.store_names if self.store is None else tuple(self.stores))
        return self

    @property
    def store_names(self) -> tuple[str, ...]:
        """The new names of the stores, in the order of the old ones; none: the stores keep their names."""
        names = self.stores.values() if isinstance(self.stores, dict) else self.stores
        return tuple(names) if self.store is None else (self.store,)


class ConversionSection(_SpecSection):
    """`[conversion]`: what happens to each record."""

    default_timestamp_ms: Annotated[int, Field(ge=-1, lt=1 << 63)] = -1
    """The timestamp of a record where the target has timestamps and the source has none."""
    function: Annotated[str | Function | None, PlainValidator(_function), _AS_NAME] = None
    """`module:function`, or in code the function itself, for runs without Spark."""
    py_files: tuple[Path, ...] = ()
    """Modules of the function: .py files, or a .zip of a package."""
    files: tuple[Path, ...] = ()
    """Data that the function reads, and modules that it imports without an import statement."""
    allow: tuple[Allowance, ...] = ()
    """Losses and risks that would be refused otherwise."""
    key: SerdeChangeSection | None = None
    """In code: a dict of `from` and `to`, as in the file."""
    value: SerdeChangeSection | None = None

    @model_validator(mode="after")
    def _files_need_a_name(self) -> ConversionSection:
        if callable(self.function) and (self.py_files or self.files):
            raise ValueError('`py_files` and `files` need the function by its name, "module:function"')
        return self


class ChangelogSection(_SpecSection):
    """`[changelog]`: the store and its changelog are migrated as one."""

    bootstrap: Annotated[str, AfterValidator(checked_bootstrap)]
    """`host:port` of one broker or several, with commas between."""
    application_id: Annotated[str, Field(pattern=TOPIC)] | None = None
    """The application's id, which its group and topics are named by; None: the name of the state directory."""
    way: Literal["new-topic", "append"] | None = None
    """Where the new changelog records go if the conversion changes them; None: to a new topic."""
    timestamps: Literal["default", "changelog"] = "default"
    """Where a new store has timestamps and the old one none: `[conversion] default_timestamp_ms`, or that of each key's
    last changelog record."""
    missing: Literal["leave", "rebuild"] | None = None
    """Partitions of the old topic with keys that no host of the migration has: they may go, or are converted from the
    topic alone. None: the cut-over is refused while there is one."""
    config: Path | None = None
    """A file of librdkafka's properties; `${NAME}` in a value stands for a variable of the environment."""
    application: Literal["stopped"] | None = None
    """The user's word that every instance has stopped, where the broker cannot tell."""
    other_topics: Literal["leave"] | None = None
    """What the application's other internal topics hold is meant to stay as it is."""


class RunSection(_SpecSection):
    """`[run]`: how the migration runs. None of it changes the result."""

    chunk_size: Annotated[ByteSize, BeforeValidator(_size), Field(gt=0)] = ByteSize(1 << 30)
    """Bytes of records in one chunk, or text like "512 MiB": a kill loses at most this much work of each slot."""
    time_budget: Annotated[timedelta, BeforeValidator(_duration)] | None = None
    """After this time a run stops, to be resumed: a duration, or text like "90m"."""
    on_reject: Literal["fail", "skip", "dead-letter"] = "fail"
    """What happens to a record that cannot be converted; "dead-letter" leaves it out and keeps it in a table."""
    max_rejects: Annotated[int, Field(ge=0)] | None = None
    max_reject_share: Annotated[float, Field(ge=0, le=1)] | None = None
    max_dropped: Annotated[int, Field(ge=0)] | None = None
    """How many records the function may drop; none by default, unless `[conversion] allow` names "drop"."""
    max_dropped_share: Annotated[float, Field(ge=0, le=1)] | None = None
    verify: Literal["full", "digest", "off"] = "full"
    snapshot: Literal["link", "copy"] = "link"
    """How the old store's files get into the snapshot."""
    engine: EngineSetting = "auto"
    """What converts and compares: machine code ("native"), wherever it can and is worth its start, or Python alone
    ("portable"). "native" refuses a run of which it cannot do everything."""
    source: Literal["live", "snapshot"] = "live"
    """Convert the application's directory, or an earlier snapshot of it while the application goes on."""


class Spec(_SpecSection):
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
            source: SourceSection | dict[str, Any],
            target: TargetSection | dict[str, Any],
            conversion: ConversionSection | dict[str, Any] = ...,
            changelog: ChangelogSection | dict[str, Any] | None = ...,
            run: RunSection | dict[str, Any] = ...,
            base_dir: str | Path = ...,
        ) -> None: ...

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
        return self.resolve(self.source.path)

    @property
    def target_path(self) -> Path | None:
        """Where the complete new state directory is published; None: `cutover` takes the old one's place."""
        return None if self.target.path is None else self.resolve(self.target.path)

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
            if given and not self.has_segments:
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
