"""Rejects of a dry run: none of them ends it, all are counted by reason, a few of each are kept."""

from __future__ import annotations

from collections import Counter

from migrate.dry_run.report import RejectExample, RejectReason
from migrate.keyrange import show_key
from migrate.showing import shown

MOST_REASONS = 10
EXAMPLES = 3
MOST_COUNTED = 1000
OTHER = "other reasons"


def reject_example(store_partition: str, family: str, key: bytes, value: bytes, reason: str) -> RejectExample:
    """As a person reads it."""
    return RejectExample(
        store_partition=store_partition, family=family, key=shown(key), value=shown(value), reason=reason
    )


class RejectsByReason:
    """Takes records that cannot be converted (`migrate.rejects.Rejects`)."""

    def __init__(self) -> None:
        self.count = 0
        self.first_of_partition = ""
        """In words: the first one since `begin`."""
        self._store_partition = ""
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, list[RejectExample]] = {}

    def begin(self, store_partition: str) -> None:
        """Whose records come next."""
        self._store_partition = store_partition
        self.first_of_partition = ""

    def add(self, family: str, key: bytes, value: bytes, reason: str) -> None:
        """Count it, and keep it while it is one of the first for its reason."""
        self.count += 1
        self.first_of_partition = self.first_of_partition or f"{show_key(key)}: {reason}"
        if reason not in self._counts and len(self._counts) >= MOST_COUNTED:
            reason = OTHER
        self._counts[reason] += 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append(reject_example(self._store_partition, family, key, value, reason))

    def reasons(self) -> tuple[RejectReason, ...]:
        """The most frequent first."""
        return tuple(
            RejectReason(reason=reason, records=count, examples=tuple(self._examples[reason]))
            for reason, count in self._counts.most_common(MOST_REASONS)
        )
