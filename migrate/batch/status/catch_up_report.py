"""The report of a catch-up: what it has laid over the new stores, and whether a cut-over can follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from migrate.batch.changelog.concerns import every_concern
from migrate.batch.context import Context
from migrate.batch.ledger.gates import not_accepted
from migrate.batch.ledger.standing import Standing
from migrate.batch.status.next_step import next_step
from migrate.model.changelog.taken import Tail
from migrate.model.plan import Plan
from migrate.model.reports import CatchUpReport, TailReport
from migrate.model.units import plural

_CUT_OVER = "stateferry cutover SPEC puts the new stores beside the old ones"
_AGAIN = f"stateferry catch-up SPEC once more; then {_CUT_OVER}"


class Application(NamedTuple):
    """What the broker says of the application's group."""

    sentence: str
    runs: bool | None
    """None: unknown."""


@dataclass(frozen=True, slots=True)
class AtBroker:
    """What the broker has said, before the old changelogs were read."""

    application: Application
    behind: int
    """Offsets behind an open transaction."""

    @property
    def next_step(self) -> str:
        """What follows, if nothing else holds the cut-over back; empty: unknown."""
        if self.application.runs:
            return f"the application still runs: once it has stopped, {_AGAIN}"
        if self.behind:
            held = f"{plural(self.behind, 'offset')} {'is' if self.behind == 1 else 'are'} behind an open transaction"
            ended = "wait until it ends (transaction.timeout.ms), or end what dead instances of this host left: --fence"
            return f"{held}: {ended}; {_AGAIN}"
        return "" if self.application.runs is None else f"nothing is behind: {_CUT_OVER}"


def catch_up_report(
    context: Context,
    plan: Plan,
    standing: Standing,
    at_broker: AtBroker | None = None,
    found: Sequence[Tail] = (),
    *,
    seconds: float,
) -> CatchUpReport:
    """The report of one catch-up; `at_broker`: None where the application replays the changelog itself."""
    concerns = every_concern(context.spec, standing)
    held = not_accepted(concerns)
    following = next_step(context.spec, standing, standing.state, held)
    if at_broker is not None and not held:
        following = at_broker.next_step or following
    what = "nothing is behind: nobody has written to the changelogs since"
    if at_broker is None:
        what = "the conversion leaves the changelog as it is: the application itself replays what it wrote since"
    elif found:
        records = plural(sum(each.records for each in found), "record")
        what = f"{records} of the changelogs were laid over the new stores"
    elif at_broker.behind:
        what = "nothing can be read: what is behind is in an open transaction"
    return CatchUpReport(
        name=context.spec.name,
        migration_id=plan.migration_id,
        what=what,
        tails=tuple(
            TailReport(
                **each.model_dump(include={"store_partition", "number", "start", "end", "records", "keys"}),
                deleted=sum(file.deletes for file in each.files),
                rejected=each.rejected,
                dropped=each.dropped,
                expired=each.expired,
            )
            for each in found
        ),
        behind=0 if at_broker is None else at_broker.behind,
        application="" if at_broker is None else at_broker.application.sentence,
        seconds=round(seconds, 3),
        warnings=tuple(context.warnings),
        concerns=concerns,
        next_step=following,
    )
