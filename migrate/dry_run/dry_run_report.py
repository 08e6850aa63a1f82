"""The report of a dry run: values, printed as text, JSON or a page. Sizes are bytes, rates are per second."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from migrate.batch.preflight.check import CheckReport
from migrate.model.changelogs import Way
from migrate.model.engine_choice import EngineChoice
from migrate.model.plan import Chunk
from migrate.model.preview import RejectReason, Shown
from migrate.model.reports import Held, ImportedTable
from migrate.model.values import Report, Value


class Sizes(Value):
    """The sizes of keys or values. Quantiles and buckets are estimates where only a sample was read."""

    p50: int
    p99: int
    largest: int
    buckets: tuple[tuple[int, float], ...]
    """(inclusive upper bound, a power of two; share of the records, 0 to 1), ascending, without empty ends."""


class ChangelogPosition(Value):
    """The changelog offset up to which the owner has written a changelog's records into the store."""

    topic: str
    partition: int
    offset: int | None
    """As the owner states it; None: unknown, the owner will replay the whole topic."""
    position: int
    """The offset of the next record to apply, which the broker calls the position; 0: all of them."""
    where: str
    """The file or the column family that holds the offset."""


Role = Literal["records", "older", "metadata", "other"]


class FamilyInventory(Value):
    """One column family of one RocksDB directory."""

    name: str
    role: Role
    """"records" are converted; "older" ones too, which an unfinished upgrade left; "metadata" is the system's own."""
    records: int
    exact: bool
    """Counted one by one; else an estimate of what lies between `at_least` and `at_most`."""
    at_least: int
    """True unless the owner held a RocksDB snapshot while it wrote, which keeps several versions of a record."""
    at_most: int
    entries: tuple[str, ...] = ()
    """The content of a metadata family, in words: it is never converted."""

    def with_count(self, records: int, *, is_all: bool) -> FamilyInventory:
        """The inventory with what is known after reading this number of records. `is_all`: there are no others."""
        known = {"at_least": max(records, self.at_least), "records": max(records, self.records)}
        counted = {"records": records, "exact": True, "at_least": records, "at_most": records}
        return self.model_copy(update=counted if is_all else known)


class DatabaseInventory(Value):
    """One RocksDB directory of a store partition."""

    store_partition: str
    database: str
    path: Path
    families: tuple[FamilyInventory, ...]
    size: int
    """All files on disk."""
    record_bytes: int
    """Keys and values before compression, from the files' own properties."""
    sst_files: int
    wal_bytes: int
    """Size of the write-ahead log, which is not flushed yet."""
    table_formats: tuple[int, ...]
    """Format versions of its SST files."""
    compressions: tuple[str, ...]
    rocksdb_version: str | None
    """The version of RocksDB that opened it last."""
    owner: str | None
    """What is known of the owning system's version, in words."""
    newest_file_ms: int | None
    """Milliseconds since the epoch."""
    positions: tuple[ChangelogPosition, ...]


class Inventory(Value):
    """The old stores' RocksDB directories, and totals over all of them."""

    databases: tuple[DatabaseInventory, ...]
    store_partitions: int
    records: int
    exact: bool
    at_least: int
    at_most: int
    unfinished: int = 0
    """Records in column families of an unfinished upgrade; part of `records`."""
    shadowed: int = 0
    """Records in them whose keys were written again since; not part of `records`."""
    expired: int = 0
    """Records older than the new store's retention, which are left behind; part of `records`."""
    size: int
    record_bytes: int
    key_sizes: Sizes | None
    """None: no record was read."""
    value_sizes: Sizes | None


class FormatHint(Value):
    """A known format that the sample fits better than, or as well as, the one that the spec names."""

    format: str
    share: float
    """Share of the sampled records that look like this format, 0 to 1."""
    named_share: float
    """Share of the sampled records that look like the format that the spec names."""
    sentence: str


class BeforeAfter(Value):
    """A record before and after the conversion."""

    store_partition: str
    key: Shown
    value: Shown
    new_key: Shown
    new_value: Shown
    fields: tuple[tuple[str, str], ...]
    """The fields of the new record as text: ("timestamp", "1768478400000 = 2026-01-15 12:00:00 UTC"); "key" and
    "value" where the spec names a serde that decodes them."""
    old_fields: tuple[tuple[str, str], ...] = ()
    """The fields of the old record as text."""


class Collision(Value):
    """Two old keys that become the same new key, or whose new keys are in another order."""

    store_partition: str
    first: Shown
    second: Shown
    new_key: Shown


class SampleConversion(Value):
    """The results of converting a sample of the records, or all of them."""

    records: int
    is_full: bool
    """Every record was converted: because of `--full`, or because that takes less than 10 seconds."""
    seed: int
    store_partitions_read: int
    sampled: int
    """Number of sampled records: `records`, unless all of them were converted."""
    decoded: int
    """Sampled records that decode as the source's format."""
    converted: int
    rejected: int
    dropped: int
    """Values that the function dropped: records, and former values of keys of a versioned store."""
    dropped_keys: tuple[Shown, ...] = ()
    """The first keys of those, at most three."""
    not_carried: int = 0
    """Records that the new format does not carry: former values, and keys of the owning system's own."""
    expired: int = 0
    """Records older than the new store's retention; not part of `records`."""
    unchanged: int
    """Records that the conversion leaves as they are."""
    rejects: tuple[RejectReason, ...]
    """The most frequent first, at most ten."""
    look_alikes: tuple[FormatHint, ...]
    examples: tuple[BeforeAfter, ...]
    """At most three."""
    collisions: tuple[Collision, ...]
    """At most three."""
    colliding_keys: int
    out_of_order: Collision | None
    """Two neighbours whose new keys are in the opposite order: no chunk could be written."""
    losses: tuple[str, ...]
    """What the target's format cannot hold, as names for [conversion] allow: "loss:timestamp"."""
    losses_in_words: tuple[str, ...]
    both_paths: int
    """Sampled records that were converted by the compiled and the reference path."""
    differences: tuple[str, ...]
    """Differences between the two paths: a bug of Stateferry."""
    program: str | None
    """The compiled conversion in words; None: the reference path converts, record by record."""
    key_sizes: Sizes | None
    """Sizes of the new keys."""
    value_sizes: Sizes | None
    times: str = ""
    """Which records are in the sample, where the new store takes their times from the changelog; empty: all may be."""

    @property
    def left_out(self) -> dict[str, int]:
        """What is not among the converted records, although nothing is wrong with it."""
        return {
            "dropped by the function": self.dropped,
            "not carried by the new format": self.not_carried,
            "older than the new retention": self.expired,
        }


class SegmentPlanned(Value):
    """A segment of the new store."""

    name: str
    start_ms: int | None
    """Milliseconds since the epoch; None: its name has no time."""
    made_of: tuple[str, ...]
    """Segments of the old store from which it gets records, the newest first."""


class Segmentation(Value):
    """The segments of one windowed or session store partition, before and after."""

    store_partition: str
    old: tuple[str, ...]
    """Names of the old segments, the oldest first."""
    new: tuple[SegmentPlanned, ...]
    expired_before_ms: int | None
    """The new store's retention keeps nothing older; None: nothing is left behind."""


class Cost(Value):
    """The cost of a run. All seconds and bytes are estimates, from what the dry run measured."""

    chunks: tuple[Chunk, ...]
    chunk_size: int
    """The setting of [run]."""
    median_chunk: int
    biggest_chunk: int
    chunks_done: int
    """Chunks done by earlier runs of this migration."""
    slots: int
    """Chunks at a time."""
    measured_records: int
    """Converted and written to a temporary file, to measure the rates."""
    records_per_second: float | None
    """Records that one slot reads, converts and writes. None: there was nothing to measure."""
    verified_per_second: float | None
    rewrite_seconds: float
    verify_seconds: float
    other_seconds: float
    """Snapshot, assembly and the start of Spark."""
    changelog_seconds: float = 0.0
    """Writing the changelogs, and reading them back."""
    total_seconds: float
    downtime_seconds: float
    """How long the application must be stopped."""
    downtime: str
    """The steps that need the application to be stopped, in words."""
    new_bytes: int
    """Size of the new stores on disk."""
    copied_bytes: int
    """Bytes copied for the snapshot: 0 where files are hard-linked."""
    peak_bytes: int
    """The most that the work_dir takes at any time."""
    required_bytes: int
    """Free space that a run requires before it starts: 1.2 times the records before compression."""
    free_bytes: int | None
    """Free space of the work_dir's file system; None: unknown."""
    worker_bytes: int
    """Memory of one worker."""
    driver_bytes: int
    """Memory of the driver, which keeps something for each chunk."""
    recommended_chunk_size: int
    """A [run] chunk_size that suits this store, these slots and this machine's memory."""
    recommended_because: str
    """The limit that decides it, in words."""


class Verdict(Value):
    """The conclusion in one line, and the exit code."""

    exit_code: int
    go: bool
    sentence: str
    next_step: str


class TopicPlanned(Value):
    """The changelog of a store partition."""

    store_partition: str
    topic: str
    new_topic: str
    """The same, unless the new store gets a topic of its own."""


class ChangelogPlan(Value):
    """What a run does to the changelogs, where the spec has a section for them. All seconds are estimates."""

    way: Way
    why: str
    topics: tuple[TopicPlanned, ...]
    held: tuple[Held, ...] = ()
    """Which partitions of the old changelogs hold keys, where new ones are written."""
    records: int
    """Records to write, and to read back."""
    bytes: int
    """Of their keys and values, before the conversion."""
    write_seconds: float
    read_back_seconds: float
    assumed: str
    """The rates that the seconds are computed with."""
    tail_records: int | None
    """What the application wrote after the stores' positions; None: the broker was not asked."""
    is_most: bool
    """The tail was not counted: by its offsets, it has so many records at most."""
    catch_up_seconds: float
    """How long `catch-up` takes for this tail, while the application is stopped."""
    way_back: str
    """What `rollback` does and costs."""
    other_stores: tuple[str, ...] = ()
    """Where keys or values change: the stores in the tasks of this host that stay as they are."""


class PartitionsPlan(Value):
    """What changes with another number of store partitions, besides the stores."""

    old: int
    """How many store partitions there are."""
    new: int
    partitioner: str
    """What put keys where they are, and puts them into the new store partitions."""
    stores: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    """The topics that the application's group has read; empty: no broker was asked, or none is known."""
    repartition: tuple[str, ...] = ()
    """Topics that the application alone writes and reads."""
    other_changelogs: tuple[str, ...] = ()
    """Changelogs of the application whose stores have no directory here."""
    steps: tuple[str, ...]
    """What is to be done, in this order."""


class SortingPlan(Value):
    """What it takes to sort the new keys, which Spark does. Bytes are estimates."""

    why: str
    """Why they have to be sorted."""
    bytes: int
    """Keys and values that are left to sort: Spark's local directories take about as much, of one wave at a time."""
    wave_size: int
    """The setting of [run]."""
    waves: int
    """How many jobs of Spark that makes: each reads the old store from its beginning to its end."""
    times_slower: float
    """How much longer a wave takes, about, than chunks of the same bytes that are not sorted."""
    start_seconds: float = 0.0
    """What the first query of a session takes besides, about."""


class DryRunReport(Report):
    """What a run of this spec would do. Where a check failed early, what depends on it is None."""

    name: str
    source_format: str
    target_format: str
    source: Path
    target: Path | None
    """Path of the new state directory to publish; None: `cutover` exchanges the stores in place."""
    stores: tuple[str, ...]
    work_dir: Path
    tool_version: str
    made_at_ms: int
    """Milliseconds since the epoch."""
    seconds: float
    """Duration of the dry run."""
    is_estimate: bool
    """The application runs, or may run: the report shows one moment of it."""
    state: str
    """State of a migration that was started with this spec: see `status`."""
    imported: ImportedTable | None = None
    """The rows that are the old records, where `import` makes the store; `found` and `tried` are None then."""
    found: Inventory | None
    tried: SampleConversion | None
    segments: tuple[Segmentation, ...] = ()
    """Segments of windowed and session stores."""
    cost: Cost | None
    engine: EngineChoice | None = None
    """Which engine would do the work. The rates of `cost` are the portable engine's."""
    changelog: str
    """What the migration means for the changelog, in a sentence."""
    changelogs: ChangelogPlan | None = None
    """Without a section [changelog], where the broker was not reached, and where nothing says which way, None."""
    partitions: PartitionsPlan | None = None
    """Where the spec changes the number of store partitions, what else changes."""
    sorting: SortingPlan | None = None
    """Where the run sorts the new keys, what that takes."""
    warnings: tuple[str, ...]
    checks: tuple[CheckReport, ...]
    verdict: Verdict
