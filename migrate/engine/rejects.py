"""Records that cannot be converted: the chunk fails, or they are skipped or written to a dead-letter file (Parquet)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from formats import LossError
from migrate.errors import RefusedError, RejectedError
from migrate.model.display import plural
from migrate.model.key_range import show_key
from migrate.model.plan import Chunk
from migrate.model.preview import RejectExample, RejectReason, shown
from migrate.stores.files import fsync_file

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MOST_REASONS = 10
MOST_OF_A_CHUNK = 5
EXAMPLES_OF_A_CHUNK = 2
"""What a receipt holds, so that the ledger stays small."""
EXAMPLES = 3
MOST_COUNTED = 1000
OTHER = "other reasons"
_LONGEST_REASON = 500
_BUFFERED_RECORDS = 1000
_BUFFERED_BYTES = 8 << 20
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")


class RecordRejectedError(RejectedError):
    """A record that cannot be converted has ended its chunk."""

    chunk: Chunk | None = None

    def __init__(self, message: str, *, hint: str, reason: RejectReason) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class RejectsByReason:
    """Counts rejects by reason and by place in the function, and keeps the first examples of each.

    Reasons that differ only in their numbers count as one.
    """

    def __init__(self, reasons: int = MOST_REASONS, examples: int = EXAMPLES) -> None:
        self.count = 0
        self.first_of_partition = ""
        """The key and reason of the first reject since `begin`."""
        self._store_partition = ""
        self._most_reasons = reasons
        self._most_examples = examples
        self._counts: Counter[tuple[str, str]] = Counter()
        self._reasons: dict[tuple[str, str], str] = {}
        self._examples: dict[tuple[str, str], list[RejectExample]] = {}

    def begin(self, store_partition: str) -> None:
        """Name the store partition of the next rejects."""
        self._store_partition = store_partition
        self.first_of_partition = ""

    def add(self, family: str, key: bytes, value: bytes, reason: str, place: str = "") -> None:
        """Count a reject, and keep it if it is one of the first for its reason."""
        self.first_of_partition = self.first_of_partition or f"{show_key(key)}: {reason}"
        reason = reason[:_LONGEST_REASON]
        self.take(reason, place, 1, lambda: (reject_example(self._store_partition, family, key, value, reason),))

    def take(self, reason: str, place: str, records: int, examples: Callable[[], tuple[RejectExample, ...]]) -> None:
        """Count records of one reason; `examples` is called where some are wanted."""
        self.count += records
        group = (numbers_left_out(reason), place)
        if group not in self._counts and len(self._counts) >= MOST_COUNTED:
            reason, group = OTHER, (OTHER, "")
        self._counts[group] += records
        if self._reasons.setdefault(group, reason) != reason:
            self._reasons[group] = group[0]
        known = self._examples.setdefault(group, [])
        if len(known) < self._most_examples:
            known += examples()[: self._most_examples - len(known)]

    @property
    def reasons(self) -> tuple[RejectReason, ...]:
        """The most frequent reasons, the most frequent first."""
        return tuple(
            RejectReason(
                reason=self._reasons[group], records=count, place=group[1], examples=tuple(self._examples[group])
            )
            for group, count in self._counts.most_common(self._most_reasons)
        )


class CountRejects(RejectsByReason):
    """Takes the records of one chunk that cannot be converted: they are left out and counted."""

    def __init__(self, where: str, limit: int | None = None, *, has_function: bool = False) -> None:
        super().__init__(MOST_OF_A_CHUNK, EXAMPLES_OF_A_CHUNK)
        self._has_function = has_function
        self._where = where
        self._limit = limit

    def add(self, family: str, key: bytes, value: bytes, reason: str, place: str = "") -> None:
        """Count a reject; `place`: of the function's exception. Raises RejectedError past the limit."""
        super().add(family, key, value, reason, place)
        if self._limit is not None and self.count > self._limit:
            last = f"{self._where}: the key {show_key(key)}: {reason[:_LONGEST_REASON]}{f' ({place})' if place else ''}"
            raise RecordRejectedError(
                f"records that cannot be converted: {self.count}, max_rejects allows {self._limit}; "
                f"the last one, {last}",
                hint=way_past_the_cap(has_function=self._has_function),
                reason=_ending(family, key, value, reason, place),
            )

    def finish(self) -> bool:
        """Complete the file of rejects. Returns whether there is one."""
        return False


class FailOnReject(CountRejects):
    """The first reject ends the chunk."""

    def add(self, family: str, key: bytes, value: bytes, reason: str, place: str = "") -> None:
        raise RecordRejectedError(
            f"{self._where}, column family {family!r}: the key {show_key(key)} (value of {plural(len(value), 'byte')}) "
            f"cannot be converted: {reason[:_LONGEST_REASON]}{f' ({place})' if place else ''}",
            hint=f'set [run] on_reject = "skip" or "dead-letter" and rerun; or {_way_to_convert(self._has_function)}',
            reason=_ending(family, key, value, reason, place),
        )


def loss_not_allowed(where: str, key: bytes, error: LossError) -> RefusedError:
    """The error for a loss that the spec does not allow: no policy for rejects takes it, as nothing is wrong with the
    record."""
    return RefusedError(
        f"{where}: the key {show_key(key)}: {error}",
        hint=f'correct the function; or, if the loss is acceptable, set [conversion] allow = ["{error.loss}"] and run '
        "the same command again",
    )


def reject_example(store_partition: str, family: str, key: bytes, value: bytes, reason: str) -> RejectExample:
    """A reject in a form to print."""
    return RejectExample(
        store_partition=store_partition, family=family, key=shown(key), value=shown(value), reason=reason
    )


def numbers_left_out(reason: str) -> str:
    """The reason with `#` in the place of each number."""
    return _NUMBER.sub("#", reason)


def _ending(family: str, key: bytes, value: bytes, reason: str, place: str) -> RejectReason:
    reason = reason[:_LONGEST_REASON]
    example = reject_example("", family, key, value, reason)
    return RejectReason(reason=reason, records=1, examples=(example,), place=place, ended_run=True)


def way_to_fix(*, has_function: bool) -> str:
    """What to fix where records cannot be converted, for hints."""
    return "fix the function" if has_function else "correct [source] format, or the serdes of [conversion]"


def way_past_the_cap(*, has_function: bool) -> str:
    """What to do where more records were rejected than [run] allows, for hints."""
    return f"raise the cap in [run] and rerun: finished chunks are kept; or {_way_to_convert(has_function)}"


def _way_to_convert(has_function: bool) -> str:
    if has_function:
        return "see such records with stateferry rejects SPEC, fix the function, and stateferry replay SPEC"
    return f"{way_to_fix(has_function=False)} and start again under another `name`"


def reject_schema() -> pa.Schema:
    """The columns of a dead-letter file."""
    import pyarrow as pa  # slow, and not in the base install: only a reject needs it

    names = ("store_partition", "family", "key", "value", "reason", "place")
    return pa.schema([pa.field(name, pa.binary() if name in ("key", "value") else pa.string()) for name in names])


class KeepRejects(CountRejects):
    """Rejects are left out, counted, and written to a Parquet file."""

    def __init__(
        self, where: str, partition: str, file: Path, limit: int | None, *, has_function: bool = False
    ) -> None:
        super().__init__(where, limit, has_function=has_function)
        self._partition = partition
        self.file = file
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[dict[str, object]] = []
        self._size = 0

    def add(self, family: str, key: bytes, value: bytes, reason: str, place: str = "") -> None:
        super().add(family, key, value, reason, place)
        row = {"family": family, "key": key, "value": value, "reason": reason, "place": place}
        self._rows.append({"store_partition": self._partition, **row})
        self._size += len(key) + len(value) + len(reason)
        if len(self._rows) >= _BUFFERED_RECORDS or self._size >= _BUFFERED_BYTES:
            self._write()

    def finish(self) -> bool:
        if self._rows:
            self._write()
        if self._writer is None:
            return False
        self._writer.close()
        fsync_file(self.file)
        return True

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            self._writer = pq.ParquetWriter(self.file, reject_schema())
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._writer.schema))
        self._rows = []
        self._size = 0


def reject_policy(
    on_reject: Literal["fail", "skip", "dead-letter"],
    where: str,
    partition: str,
    file: Path,
    limit: int | None,
    *,
    has_function: bool,
) -> CountRejects:
    """What is to become of records that cannot be converted; `file`: for dead letters."""
    if on_reject == "fail":
        return FailOnReject(where, has_function=has_function)
    if on_reject == "skip":
        return CountRejects(where, limit, has_function=has_function)
    return KeepRejects(where, partition, file, limit, has_function=has_function)
