"""Concerns about putting the new stores into use, and their acceptance, by the ledger alone.

Publishing and cut-over check them; `status`, `report` and the page show them. A mismatch cannot be accepted: only a
verification as strong that succeeds, of stores that were assembled again since, resolves it.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from dataclasses import dataclass

from migrate.batch.ledger.standing import Standing
from migrate.engine.left_out import WAY_TO_ALLOW, dropped_in_words
from migrate.errors import DroppedError, MigrationError, RefusedError, RejectedError, VerificationError
from migrate.model.comparison import Totals
from migrate.model.display import moment, plural
from migrate.model.ledger_row import Step
from migrate.model.reports import Concern
from migrate.spec.allowed import DROP, UNVERIFIED, allowing
from migrate.spec.sections import RunSection
from migrate.spec.spec import Spec

_KEPT = "if the difference is only what it wrote, stateferry finalize SPEC --accept-mismatch keeps the new ones"
_ERRORS: dict[str, type[MigrationError]] = {
    "mismatch": VerificationError,
    "unverified": RefusedError,
    "changelog": RefusedError,
    "rejects": RejectedError,
    "dropped": DroppedError,
}
_SWITCHED = (Step.CUTTING_OVER, Step.CUT_OVER, Step.FINALIZING, Step.FINALIZED)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The concerns that the command accepts, in addition to those that the spec accepts."""

    unverified: bool = False
    rejects: int | None = None
    """The number of rejected records up to which they are accepted."""


NOTHING_ACCEPTED = Acceptance()


def concerns_of(spec: Spec, standing: Standing, acceptance: Acceptance = NOTHING_ACCEPTED) -> tuple[Concern, ...]:
    """All concerns, the gravest first; those that were accepted when the stores went live are marked."""
    found = (
        _mismatch(spec, standing) or _unverified(spec, standing, acceptance),
        _rejects(spec, standing, acceptance),
        _dropped(spec, standing.totals),
    )
    recorded = {concern.kind: concern.accepted for concern in _accepted_then(standing)}
    return tuple(
        concern.model_copy(update={"accepted": recorded.get(concern.kind, concern.accepted)})
        for concern in found
        if concern is not None
    )


def not_accepted(concerns: Iterable[Concern]) -> tuple[Concern, ...]:
    """The concerns that hold the new stores back: nothing accepts them."""
    return tuple(concern for concern in concerns if concern.holds_back)


def require_acceptance(concerns: Iterable[Concern], what: str) -> None:
    """Raises an error by the gravest concern if one is not accepted; `what` begins it."""
    held = not_accepted(concerns)
    if not held:
        return
    kinds = {concern.kind for concern in held}
    error = next(error for kind, error in _ERRORS.items() if kind in kinds)
    sentences = "; ".join(concern.sentence for concern in held)
    raise error(f"{what}: {sentences}", hint="; ".join(concern.fix for concern in held))


def signed_off(concerns: Iterable[Concern]) -> tuple[Concern, ...]:
    """The accepted concerns with the name of the user who runs the command, for the ledger."""
    return tuple(
        concern.model_copy(update={"accepted": f"{concern.accepted}, by {user()}"})
        for concern in concerns
        if concern.accepted
    )


def user() -> str:
    """The name of the user who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):  # a container's user may have no name
        return "a user without a name"


def what_stays(spec: Spec) -> str:
    """What a published store was made from, which is the way back."""
    made_of = (
        "the changelog" if spec.source.changelog else "the table" if spec.source.rows else "the old state directory"
    )
    return f"{made_of} is as it was"


def _mismatch(spec: Spec, standing: Standing) -> Concern | None:
    row = standing.mismatch
    if row is None:
        return None
    found = row.verification
    in_use = "if no application has written to the new stores since"
    fix = (
        f'stateferry run SPEC, with [run] verify = "{found.mode}", assembles the new stores again from their chunks '
        f"and compares them, and so does stateferry verify SPEC --mode {found.mode} after a run that compares less; "
        "stores that are equal then settle this; if they are not: keep the work_dir and report this, or give the "
        "migration up (stateferry abandon SPEC)"
    )
    if standing.revision is not None:
        fix = after_replay(standing)
    if standing.published is not None:
        fix = f"{in_use}, do not use them: {what_stays(spec)}; {_KEPT}"
    elif standing.step in _SWITCHED:
        fix = f"{in_use}: stateferry rollback SPEC puts the old ones back; {_KEPT}"
    return Concern(
        kind="mismatch",
        sentence=(
            f"a verification ({found.mode}, {moment(row.committed_at_ms)}) found the new stores wrong: "
            f"{plural(found.missing, 'key')} missing, {found.differing:,} differing, {found.extra:,} extra"
        ),
        fix=fix,
    )


def after_replay(standing: Standing) -> str:
    """What to do where a verification has refuted the function of a replay."""
    if standing.is_of_several_revisions:
        return "stateferry replay SPEC again, with the same function: it also rewrites what earlier replays converted"
    return (
        "the function of the replay changes other records too, in chunks that a replay does not rewrite, or it is not "
        "pure: fix it so that it changes the rejected records alone, and stateferry replay SPEC again; or, to convert "
        "everything with it: stateferry abandon SPEC, then stateferry run SPEC"
    )


def _unverified(spec: Spec, standing: Standing, acceptance: Acceptance) -> Concern | None:
    if standing.is_verified or not standing.newest:
        return None
    if standing.revision is not None:
        return Concern(
            kind="unverified",
            sentence="the new stores are not verified in full, and after a replay nothing else suffices",
            fix="stateferry verify SPEC compares them in full, and so does stateferry run SPEC",
        )
    accepted = allowing(UNVERIFIED) if UNVERIFIED in spec.conversion.allow else ""
    return Concern(
        kind="unverified",
        sentence="the new stores are not verified",
        fix=(
            "stateferry verify SPEC compares them, and so does stateferry run SPEC unless [run] verify is off; to go "
            f"live without: stateferry {_verb(spec)} SPEC --unverified"
        ),
        accepted="--unverified" if acceptance.unverified else accepted,
    )


def _rejects(spec: Spec, standing: Standing, acceptance: Acceptance) -> Concern | None:
    count = standing.totals.rejected
    if not count:
        return None
    accepted = _caps(spec.run, standing.totals)
    if acceptance.rejects is not None and count <= acceptance.rejects:
        accepted = f"--accept-rejects {acceptance.rejects}"
    sentence = f"{plural(count, 'record')} could not be converted and {'is' if count == 1 else 'are'} left out"
    can_be_replayed = spec.conversion.function is not None and not standing.every_tail
    replay = "fix the function, then stateferry replay SPEC; or, " if can_be_replayed else ""
    fix = (
        f"stateferry rejects SPEC shows these records; {replay}to go live without them: "
        f"stateferry {_verb(spec)} SPEC --accept-rejects {count}, or [run] max_rejects = {count}"
    )
    return Concern(kind="rejects", sentence=sentence, fix=fix, accepted=accepted)


def _dropped(spec: Spec, totals: Totals) -> Concern | None:
    """The values that the function has dropped: a loss that the spec has to allow, now too."""
    if not totals.dropped or spec.conversion.function is None:
        return None
    bounds = {"max_dropped": spec.run.max_dropped, "max_dropped_share": spec.run.max_dropped_share}
    allowed = [allowing(DROP)] if DROP in spec.conversion.allow else []
    allowed += [f"[run] {name} = {bound}" for name, bound in bounds.items() if bound is not None]
    excess = spec.dropped_too_many(totals.dropped, totals.records_in)
    return Concern(
        kind="dropped",
        sentence=dropped_in_words(totals.dropped, totals.records_out, totals.dropped_keys),
        fix=f"fix the function, then stateferry replay SPEC; or, {WAY_TO_ALLOW}",
        accepted="" if excess else " and ".join(allowed),
    )


def _caps(run: RunSection, totals: Totals) -> str:
    """The spec's caps, if the rejects are within all of them; else an empty text."""
    caps = {"max_rejects": run.max_rejects, "max_reject_share": run.max_reject_share}
    if run.max_rejects is not None and totals.rejected > run.max_rejects:
        return ""
    if run.max_reject_share is not None and totals.rejected > run.max_reject_share * totals.records_in:
        return ""
    return " and ".join(f"[run] {name} = {cap}" for name, cap in caps.items() if cap is not None)


def _verb(spec: Spec) -> str:
    return "cutover" if spec.target_path is None else "run"


def _accepted_then(standing: Standing) -> Iterable[Concern]:
    """The concerns that were accepted when the new stores went live; none if they are not live."""
    if standing.step in _SWITCHED:
        yield from standing.journal.accepted
    if standing.published is not None and standing.publications:
        yield from map(Concern.model_validate, standing.publications[-1]["accepted"])
