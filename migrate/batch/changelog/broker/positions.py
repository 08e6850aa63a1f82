"""Where stores are in their changelogs: past the end, before what is left, or behind."""

from __future__ import annotations

from dataclasses import dataclass, field

from migrate.batch.source.source import Source
from migrate.errors import RefusedError
from migrate.kafka.cluster import Ends
from migrate.model.changelog.written import Changelog, Way
from migrate.model.reports import Doubt
from migrate.spec.allowed import LOST_TOMBSTONES, allowing
from migrate.spec.spec import Spec

_CATCH_UP = "after the run, and before the cut-over: stateferry catch-up SPEC brings these records"


@dataclass(frozen=True, slots=True)
class Positions:
    """Sentences about the stores whose changelogs have not just what they have."""

    ahead: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)

    def check_end(self, each: Changelog, position: int | None, ends: Ends, *, may_be_ahead: bool) -> None:
        """Raises RefusedError where a store is past its changelog's end, unless its owner counts its stops."""
        if position is None or position <= ends.end:
            return
        text = f"{_place(each, position)}, which ends at {ends.end}"
        if not may_be_ahead:
            raise RefusedError(
                f"{text}: the topic was made again, or is another one",
                hint="check [changelog] bootstrap; where the topic was made again: start the old application, let it "
                "restore, and stop it cleanly",
            )
        self.ahead.append(f"{text}; it is taken for the end, as the owner counts its stops")

    def check_beginning(self, spec: Spec, source: Source, each: Changelog, position: int | None, ends: Ends) -> None:
        """Raises RefusedError where a store, and what follows its position, are not the whole state.

        What retention has removed of its changelog may be allowed.
        """
        partition = next(found for found in source.partitions if found.id == each.store_partition)
        problem = None
        if spec.run.source == "live" and not source.system.counts_stops:
            problem = source.system.position_problem(source.path, partition)
        if problem is None and position is None:
            problem = "nothing states its position in the changelog"
        if problem is not None and (position is not None or ends.end > ends.start):
            raise RefusedError(
                f"{each.store_partition}: {problem}, so its files alone are not the state",
                hint="start the old application, let it restore, and stop it cleanly; then run the same command again",
            )
        if (position or 0) >= ends.start:
            return
        gone = (
            f"{_place(each, position or 0)}, which begins at {ends.start} by now: its retention has removed records "
            "that the store lacks"
        )
        if LOST_TOMBSTONES not in spec.conversion.allow:
            raise RefusedError(
                gone,
                hint="start the old application, let it catch up, and stop it cleanly; then run the same command "
                f"again; or accept that keys which were deleted come back: {allowing(LOST_TOMBSTONES)}",
            )
        self.gone.append(f"{gone} (allowed by name)")

    def in_words(self, way: Way, source: str) -> str | Doubt:
        """What is to be said of all of them. `source`: whether the stores are live, or of a snapshot."""
        behind = "; ".join(self.behind)
        if self.ahead:
            every = "; ".join([*self.ahead, *self.gone, *self.behind])
            return Doubt(every, "make sure that these topics were not made again")
        if self.gone:
            return Doubt("; ".join(self.gone + self.behind), f"{_CATCH_UP}; keys that were deleted since may come back")
        if not behind:
            return "every store has all that its changelog has"
        if way == "none":
            return f"{behind}: the application replays these records"
        return f"{behind}; {_CATCH_UP}" if source == "snapshot" else Doubt(behind, _CATCH_UP)


def _place(each: Changelog, position: int) -> str:
    return f"{each.store_partition} is at {position} of {each.topic}, partition {each.number}"
