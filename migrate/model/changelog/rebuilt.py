"""Store partitions that no host has, made from their changelogs alone."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.model.changelog.compared import Reread
from migrate.model.changelog.taken import Tail
from migrate.model.changelog.written import Changelog, Produced, Topics
from migrate.model.ledger_row import Row, Step, read_detail
from migrate.model.values import Stored


class Rebuilt(Stored):
    """What was done of one: `detail` of a REBUILT row, of which the last one counts."""

    changelog: Changelog
    tail: Tail
    """What its old changelog holds from beginning to end, converted."""
    produced: Produced | None = None
    """That the broker has confirmed it in the new topic; None: not yet."""
    reread: Reread | None = None
    """That it was read back; None: not yet."""

    @property
    def is_done(self) -> bool:
        """Whether the new topic holds it, as was read back."""
        return self.produced is not None and self.reread is not None and self.reread.ok


def rebuilt_in(rows: Iterable[Row]) -> dict[str, Rebuilt]:
    """By store partition that no host has, what was made of its changelog."""
    found = (
        read_detail(row, Rebuilt, "a store partition that was rebuilt") for row in rows if row.step is Step.REBUILT
    )
    return {each.changelog.store_partition: each for each in found}


def with_rebuilt(topics: Topics, rebuilt: tuple[Changelog, ...]) -> Topics:
    """The topics with the changelogs of these store partitions alone, none of which is claimed yet."""
    starts = {each.store_partition: 0 for each in rebuilt}
    return topics.model_copy(update={"changelogs": rebuilt, "starts": starts, "claimed": (), "parts": ()})
