"""The sections of a spec."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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

from formats import Function
from migrate.model.engine_choice import EngineSetting
from migrate.spec.allowed import Allowance
from migrate.spec.mistakes import FUNCTION, PARTITIONER, TOPIC, VERSION, check_names, checked_bootstrap, spec_error
from migrate.spec.serde_section import SerdeChangeSection

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|d)\s*")
_SIZE = re.compile(r"\s*\d*\.?\d+\s*[A-Za-z]*\s*")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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


class SpecSection(BaseModel):
    """A section: frozen, and every mistake in it is named. Raises SpecError."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, hide_input_in_errors=True)

    if not TYPE_CHECKING:  # type checkers derive the parameters from the fields

        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                where = type(self).__name__
                raise spec_error(error, type(self), where=where, hint="docs/operations.md has all keys") from error

        __init__.__pydantic_base_init__ = True  # a section inside a spec is validated with it, not by a call


class MovedStore(SpecSection):
    """In `[source] stores`: a store of the same tasks that keeps its format where `[target] partitions` moves it."""

    name: str
    format: str
    retention_ms: Milliseconds | None = None
    """The retention that a windowed or session store's segments were made with."""
    segment_ms: Milliseconds | None = None


_Stores = tuple[
    Annotated[
        Annotated[str, Tag("name")] | Annotated[MovedStore, Tag("table")],
        Discriminator(lambda store: "name" if isinstance(store, str) else "table"),
    ],
    ...,
]


class SourceSection(SpecSection):
    """`[source]`: the old store."""

    format: str
    path: Path
    """The application's state directory, or one RocksDB directory. With `changelog` it may be left out: its name alone
    counts, as the application's id."""
    changelog: Literal[True] | None = None
    """The store is made from its changelog alone, which [changelog] says how to reach."""
    rows: Literal[True] | None = None
    """The store is made from the rows of a table, as in each spec without `[source]`."""
    subtopology: Annotated[int, Field(ge=0)] | None = None
    """With `changelog`: the first number of the names of the store's tasks, which no topic tells."""
    store: str | None = None
    """The store's name; without it and `stores`, `path` is one RocksDB directory."""
    stores: _Stores = ()
    partitioner: Annotated[str, Field(pattern=PARTITIONER)] | None = None
    """What put each key into its store partition, where `[target] partitions` changes their number; None: Kafka's own
    murmur2. `crc32` is the default of librdkafka's producers; `module:function` gets the serialized key and a number of
    partitions."""
    leave_out: tuple[str, ...] = ()
    """Task directories that were left behind when sub-topologies were renumbered: their stores are not migrated."""
    retention_ms: Milliseconds | None = None
    """The retention that a windowed or session store's segments were made with. With `changelog` also the history
    retention of a versioned store."""
    segment_ms: Milliseconds | None = None
    """The time that one segment covers, where the application sets it; otherwise the retention determines it."""

    @model_validator(mode="before")
    @classmethod
    def _a_changelog_needs_no_path(cls, section: object) -> object:
        if isinstance(section, dict) and section.get("changelog") is True:
            return dict(section, path=section.get("path", Path()))
        return section

    @model_validator(mode="after")
    def _one_way_to_name_stores(self) -> SourceSection:
        check_names(self.store, self._listed)
        if self.leave_out and not self.store_names:
            raise ValueError("`leave_out` names task directories, and without a store `path` is one RocksDB directory")
        return self

    @property
    def is_made(self) -> bool:
        """Whether the old store is made by the migration, in its folder."""
        return bool(self.changelog or self.rows)

    @property
    def _listed(self) -> tuple[str, ...]:
        return tuple(store if isinstance(store, str) else store.name for store in self.stores)

    @property
    def moved_stores(self) -> list[MovedStore]:
        """The stores that keep their format."""
        return [store for store in self.stores if isinstance(store, MovedStore)]

    @property
    def store_names(self) -> tuple[str, ...]:
        """The stores to migrate; none: `path` is one RocksDB directory."""
        return self._listed if self.store is None else (self.store,)


class TargetSection(SpecSection):
    """`[target]`: the new store."""

    format: str
    path: Path | None = None
    """Where a complete new state directory is published; None: `cutover` exchanges the stores in place."""
    store: str | None = None
    """The new store's name, where its changelog is a new topic; the old store and its changelog stay as they are."""
    stores: _Names = ()
    """The new names of `[source] stores`, in the same order; or a table of them, `old = "new"`."""
    subtopology: Annotated[int, Field(ge=0)] | None = None
    """Without `[source]`: the first number of the names of the store's tasks."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Another number of store partitions: that of the input topics which the application will read."""
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


class ConversionSection(SpecSection):
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
    on_collision: Literal["newest"] | None = None
    """Of records that get one new key, the newest stays, by its timestamp, then by its value. None: an error."""

    @model_validator(mode="after")
    def _files_need_a_name(self) -> ConversionSection:
        if callable(self.function) and (self.py_files or self.files):
            raise ValueError('`py_files` and `files` need the function by its name, "module:function"')
        return self


class ChangelogSection(SpecSection):
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


class RunSection(SpecSection):
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
    sort: bool | None = None
    """Whether Spark sorts the new keys, as a conversion needs that keeps no order; None: sampled keys decide."""
    wave_size: Annotated[ByteSize, BeforeValidator(_size), Field(gt=0)] = ByteSize(64 << 30)
    """Bytes that are sorted at once, for which Spark's local disks must have room: a kill loses at most this much
    work, and the old store is read once for each."""
    source: Literal["live", "snapshot"] = "live"
    """Convert the application's directory, or an earlier snapshot of it while the application goes on."""
