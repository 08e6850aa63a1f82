"""What a dry run tells: values, to be shown as text, as JSON or as a page. Sizes are bytes, rates are per second."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from migrate.batch.preflight.check import CheckReport
from migrate.model.key_range import KeyRange
from migrate.model.preview import RejectReason, Shown
from migrate.model.values import Report, Value


class Sizes(Value):
    """How large keys or values are. Quantiles and buckets are estimates where a sample was read."""

    p50: int
    p99: int
    largest: int
    buckets: tuple[tuple[int, float], ...]
    """(upper bound, included, a power of two; share of the records, 0 to 1), ascending, without empty ends."""


class ChangelogPosition(Value):
    """How far the owner has written a changelog's records into the store."""

    topic: str
    partition: int
    offset: int | None
    """Of the last record applied; None: unknown, the owner will replay the whole topic."""
    where: str
    """The file or the column family that says so."""


Role = Literal["records", "older", "metadata", "other"]


class FamilyInventory(Value):
    """One column family of one RocksDB directory."""

    name: str
    role: Role
    """Converted; left by an unfinished upgrade, and converted too; the owning system's own; none of these."""
    records: int
    exact: bool
    """Counted one by one; else an estimate of what lies between `at_least` and `at_most`."""
    at_least: int
    """Unless its owner held a RocksDB snapshot while it wrote, which keeps several versions of a record."""
    at_most: int
    entries: tuple[str, ...] = ()
    """What a metadata family holds, in words: nothing here is ever converted."""

    def read(self, records: int, *, is_all: bool) -> FamilyInventory:
        """The same, once so many of its records were read."""
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
    """On disk, all files."""
    record_bytes: int
    """Keys and values before compression, from the files' own properties."""
    sst_files: int
    wal_bytes: int
    """Write-ahead log that was not flushed yet."""
    table_formats: tuple[int, ...]
    """Format versions of its SST files."""
    compressions: tuple[str, ...]
    rocksdb_version: str | None
    """Of the RocksDB that opened it last."""
    owner: str | None
    """What can be told of the owning system's version, in words."""
    newest_file_ms: int | None
    """Milliseconds since the epoch."""
    positions: tuple[ChangelogPosition, ...]


class Inventory(Value):
    """All that lies there."""

    databases: tuple[DatabaseInventory, ...]
    store_partitions: int
    records: int
    exact: bool
    at_least: int
    at_most: int
    unfinished: int = 0
    """Of them, in column families of an upgrade that is not finished."""
    shadowed: int = 0
    """Left there under keys that were written since; no part of `records`."""
    expired: int = 0
    """Of them, older than the new store's retention: left behind."""
    size: int
    record_bytes: int
    key_sizes: Sizes | None
    """None: no record was read."""
    value_sizes: Sizes | None


class FormatHint(Value):
    """A known format that the sample fits better than, or as well as, the one that the spec names."""

    format: str
    share: float
    """Of the sampled records that look like it, 0 to 1."""
    named_share: float
    """The same for the format that the spec names."""
    sentence: str


class BeforeAfter(Value):
    """One record, converted."""

    store_partition: str
    key: Shown
    value: Shown
    new_key: Shown
    new_value: Shown
    fields: tuple[tuple[str, str], ...]
    """What the new record holds in words: ("timestamp", "1768478400000 = 2026-01-15 12:00:00 UTC"); "key" and "value"
    where a serde is named that decodes them."""
    old_fields: tuple[tuple[str, str], ...] = ()
    """The same of the old one."""


class Collision(Value):
    """Two old keys that become one."""

    store_partition: str
    first: Shown
    second: Shown
    new_key: Shown


class SampleConversion(Value):
    """What became of the records that were read: a sample, or all of them with `--full`."""

    records: int
    is_full: bool
    """Every record there is: because it was asked for, or because there are no more than a sample has."""
    seed: int
    store_partitions_read: int
    sampled: int
    """The same as `records`, unless all of them were converted."""
    decoded: int
    """Sampled records that are what the source's format says."""
    converted: int
    rejected: int
    dropped: int
    """By the function; and former values where the new store holds the latest one."""
    expired: int = 0
    """Older than the new store's retention; no part of `records`."""
    unchanged: int
    """Converted to the very same key and value."""
    rejects: tuple[RejectReason, ...]
    """The most frequent first, at most ten."""
    look_alikes: tuple[FormatHint, ...]
    examples: tuple[BeforeAfter, ...]
    """At most three."""
    collisions: tuple[Collision, ...]
    """At most three."""
    colliding_keys: int
    out_of_order: Collision | None
    """Two neighbours whose new keys come the other way round: no chunk could be written."""
    losses: tuple[str, ...]
    """What the target's format cannot hold, as names for [conversion] allow: "loss:timestamp"."""
    losses_in_words: tuple[str, ...]
    both_paths: int
    """Sampled records that went through the compiled and the reference path."""
    differences: tuple[str, ...]
    """Where the two did not agree: a bug of ours."""
    program: str | None
    """The compiled conversion in words; None: the reference path serves, record by record."""
    key_sizes: Sizes | None
    """Of the new keys."""
    value_sizes: Sizes | None


class SegmentPlanned(Value):
    """A segment of the new store."""

    name: str
    start_ms: int | None
    """Milliseconds since the epoch; None: its name does not tell."""
    made_of: tuple[str, ...]
    """Segments of the old store whose records it takes, the newest first."""


class Segmentation(Value):
    """The segments of one windowed or session store partition, before and after."""

    store_partition: str
    old: tuple[str, ...]
    """By name, the oldest first."""
    new: tuple[SegmentPlanned, ...]
    expired_before_ms: int | None
    """The new store's retention keeps nothing older; None: nothing is left behind."""


class ChunkPlanned(Value):
    """One chunk."""

    store_partition: str
    database: str
    number: int
    keys: KeyRange
    estimated_bytes: int


class Cost(Value):
    """What it would take. Every second and byte here is an estimate, from what was measured just now."""

    chunks: tuple[ChunkPlanned, ...]
    chunk_size: int
    """As [run] says."""
    median_chunk: int
    biggest_chunk: int
    chunks_done: int
    """By earlier runs of this migration."""
    slots: int
    """Chunks at a time."""
    measured_records: int
    """Converted and written to a temporary file, to measure the rates."""
    records_per_second: float | None
    """One slot: read, converted, written. None: there was nothing to measure."""
    verified_per_second: float | None
    rewrite_seconds: float
    verify_seconds: float
    other_seconds: float
    """Snapshot, assembling, the start of Spark."""
    total_seconds: float
    downtime_seconds: float
    """How long the application must stand still."""
    downtime: str
    """What that is made of, in words."""
    new_bytes: int
    """The new stores on disk."""
    copied_bytes: int
    """Of the snapshot: none where files are hard-linked."""
    peak_bytes: int
    """The most that the work_dir takes at one time."""
    required_bytes: int
    """What a run wants to see free before it starts: 1.2 times the records before compression."""
    free_bytes: int | None
    """On the work_dir's file system; None: it cannot be asked."""
    worker_bytes: int
    """Memory of one worker."""


class Verdict(Value):
    """One line and the exit code."""

    exit_code: int
    go: bool
    sentence: str
    next_step: str


class DryRunReport(Report):
    """What a run of this spec would do. Where a check failed early, what depends on it is None."""

    name: str
    source_format: str
    target_format: str
    source: Path
    target: Path | None
    """Where the new state directory would be published; None: `cutover` exchanges the stores in place."""
    stores: tuple[str, ...]
    work_dir: Path
    tool_version: str
    made_at_ms: int
    """Milliseconds since the epoch."""
    seconds: float
    """That the dry run took."""
    is_estimate: bool
    """The application runs, or may run: what was read is one instant of it."""
    state: str
    """Of a migration that was begun by this spec: see `status`."""
    found: Inventory | None
    tried: SampleConversion | None
    segments: tuple[Segmentation, ...] = ()
    """Of windowed and session stores."""
    cost: Cost | None
    changelog: str
    """What the migration means for the changelog, in a sentence."""
    warnings: tuple[str, ...]
    checks: tuple[CheckReport, ...]
    verdict: Verdict
