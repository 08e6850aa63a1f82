"""What `stateferry get` reports: the old record of a key, what the conversion makes of it, and the new record."""

from __future__ import annotations

from typing import Any, Literal

from pydantic_core import PydanticSerializationError

from formats.serdes.json_text import dump_json
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


class _OfRecords(Value):
    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:  # noqa: ANN401 - pydantic's own
        """The report as JSON text, in which numbers of JSON are as they are stored."""
        try:
            return super().model_dump_json(indent=indent, **options)
        except PydanticSerializationError:
            separators = (",", ":") if indent is None else None
            fields = self.model_dump(**options)
            return dump_json(fields, default=str, indent=indent, ensure_ascii=False, separators=separators)


class RecordReport(_OfRecords):
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


class SideBySide(_OfRecords):
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


class GetReport(_OfRecords, Report):
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
    next_place: str = ""
    """Where the next record is, as `SideBySideStores.first` takes it."""
    leaves_out: tuple[str, ...] = ()
    """Fields of the converted record that are not compared, since a run takes them from the changelog."""
