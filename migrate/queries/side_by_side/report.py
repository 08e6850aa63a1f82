"""What `stateferry get` reports: the old record of a key, what the conversion makes of it, and the new record."""

from __future__ import annotations

from typing import Any, Literal

from migrate.model.preview import Shown
from migrate.model.values import Report, Value

Verdict = Literal["equal", "different", "missing", "extra", "rejected", "dropped", "not there yet", "gone", "nowhere"]
"""Of one record:

    equal          the new record is what the conversion makes of the old one
    different      it is another one
    missing        the new store has no record of this key
    extra          the conversion makes none, and the new store has one
    rejected       the old record cannot be converted
    dropped        the function drops it, and the new store has none
    not there yet  the new store is not assembled
    gone           the old store was removed by `finalize`
    nowhere        neither store has the key
"""


class RecordReport(Value):
    """A record of one store, decoded by the serdes of the spec."""

    key_serde: str
    value_serde: str
    key: Any = None
    value: Any = None
    """Bytes are written in base64."""
    timestamp_ms: int | None = None
    """null: the format carries none."""
    headers: tuple[tuple[str, str | None], ...] | None = None
    """Names and values, in base64."""
    window_start_ms: int | None = None
    window_end_ms: int | None = None
    """The time of a session's last record; null: a window, or none."""
    key_bytes: Shown
    value_bytes: Shown
    """As the store holds it."""
    problem: str = ""
    """Why the bytes cannot be decoded."""


class SideBySide(Value):
    """One key in both stores."""

    store_partition: str
    old: RecordReport | None = None
    converted: RecordReport | None = None
    new: RecordReport | None = None
    verdict: Verdict
    reason: str = ""
    """Why the conversion rejects the old record."""
    changes: tuple[str, ...] = ()
    """The fields in which the converted record differs from the old one, such as `value.total`."""
    differences: tuple[str, ...] = ()
    """The fields in which the new record differs from the converted one."""


class GetReport(Report):
    """What `get` prints."""

    store: str
    new_store: str
    """The new store's name."""
    old_format: str
    new_format: str
    state: str
    """The state of the migration, as `status` names it."""
    records: tuple[SideBySide, ...]
    is_complete: bool = True
    """Whether there are no more records than these."""
    leaves_out: tuple[str, ...] = ()
    """Fields of the converted record that are not compared, since a run takes them from the changelog."""
