"""The states of a migration, and what an operator does next."""

from __future__ import annotations

from migrate.ledger_rows import Step
from migrate.report_model import State

STATES: dict[Step, State] = {
    Step.CUTTING_OVER: "cutting over",
    Step.CUT_OVER: "cut over",
    Step.ROLLING_BACK: "rolling back",
    Step.ROLLED_BACK: "rolled back",
    Step.FINALIZING: "finalizing",
    Step.FINALIZED: "finalized",
}

HALF_DONE = (Step.CUTTING_OVER, Step.ROLLING_BACK, Step.FINALIZING)
"""Only the verb that began it, or `rollback`, goes on from here."""

NEXT: dict[State, str] = {
    "not started": "stateferry run SPEC",
    "snapshot taken": "start the application again; stateferry run SPEC converts the snapshot",
    "rewriting": "stateferry run SPEC (resumes)",
    "published": "point the application at the new state directory; when sure, stateferry finalize SPEC",
    "cutting over": "stateferry cutover SPEC finishes the cut-over; stateferry rollback SPEC goes back",
    "cut over": (
        "start the new version of the application; stateferry rollback SPEC goes back, "
        "stateferry finalize SPEC gives that up and frees the space"
    ),
    "rolling back": "stateferry rollback SPEC finishes the rollback",
    "rolled back": (
        "start the old version of the application; stateferry cutover SPEC exchanges the stores again, as long as "
        "nobody has written to the old ones; stateferry abandon SPEC begins anew"
    ),
    "finalizing": "stateferry finalize SPEC removes the rest",
    "finalized": "nothing: this migration is over, and its ledger says so",
}
"""What an operator does then, in one line; where the spec and what holds the migration back do not matter."""
