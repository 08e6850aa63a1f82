"""What keeps the changelogs of new stores from going live, for `cutover` and every report, by the ledger alone."""

from __future__ import annotations

from formats import Conversion
from migrate.batch.ledger.changelog_standing import changelog_reports, contents_of
from migrate.batch.ledger.gates import NOTHING_ACCEPTED, Acceptance, concerns_of
from migrate.batch.ledger.standing import Standing
from migrate.model.display import plural
from migrate.model.reports import Concern
from migrate.spec.allowed import UNVERIFIED, allowing
from migrate.spec.changelog_way import changelog_note, stated_way
from migrate.spec.spec import Spec

_READ_BACK = "stateferry verify SPEC reads them back, and so does stateferry run SPEC unless [run] verify is off"


def every_concern(spec: Spec, standing: Standing) -> tuple[Concern, ...]:
    """Those about the new stores; and about their changelogs, where these are all that is left to do."""
    found = (*concerns_of(spec, standing), *retention_concerns(standing))
    return (*found, *changelog_concerns(spec, standing)) if standing.state in ("assembled", "verified") else found


def retention_concerns(standing: Standing) -> tuple[Concern, ...]:
    """The changelogs of which the broker removes records as too old, as they were read back; none holds us back."""
    return tuple(
        Concern(
            kind="retention",
            sentence=f"the broker removes {plural(each.outdated, 'record')} from {each.new_topic} as older than its "
            "retention.ms, and a restore lacks what it removes",
            fix="raise retention.ms of that topic, or take delete out of its cleanup.policy (kafka-configs.sh --alter)",
        )
        for each in changelog_reports(standing.changelogs)
        if each.outdated
    )


def note_of(spec: Spec, conversion: Conversion, standing: Standing) -> str:
    """What the operator must know about the changelog; of one that is not whole, or may not be, that it is not."""
    for concern in changelog_concerns(spec, standing):
        return concern.sentence
    note = changelog_note(spec, conversion)
    outdated = sum(each.outdated for each in changelog_reports(standing.changelogs))
    if not outdated:
        return note
    are, them = ("is", "it") if outdated == 1 else ("are", "them")
    what = f"{are} older than its retention.ms: the broker removes {them}, and a restore lacks {them}"
    return f"{note}; but {plural(outdated, 'record')} in it {what}"


def changelog_concerns(
    spec: Spec, standing: Standing, acceptance: Acceptance = NOTHING_ACCEPTED
) -> tuple[Concern, ...]:
    """What is not written, is wrong, or was not read back; none where nothing is to be written."""
    if stated_way(spec) == "none":
        return ()
    written = standing.changelogs
    if (unwritten := _unwritten(standing)) is not None:
        return (unwritten,)
    if wrong := [partition for partition, found in written.reread.items() if not found.ok]:
        sentence = f"the changelog of {wrong[0]} was read back, and does not hold the new store"
        return (Concern(kind="mismatch", sentence=sentence, fix=_READ_BACK),)
    if written.is_verified:
        return ()
    allowed = allowing(UNVERIFIED) if UNVERIFIED in spec.conversion.allow else ""
    return (
        Concern(
            kind="unverified",
            sentence="the changelogs of the new stores were not read back",
            fix=f"{_READ_BACK}; to go live without: stateferry cutover SPEC --unverified",
            accepted="--unverified" if acceptance.unverified else allowed,
        ),
    )


def _unwritten(standing: Standing) -> Concern | None:
    fix, written = "stateferry run SPEC writes the rest", standing.changelogs
    if written.topics is None:
        return Concern(kind="changelog", sentence="the changelogs of the new stores are not written", fix=fix)
    parts = contents_of(standing.receipts, written.topics.parts)
    if pending := written.pending(parts):
        more = f", nor {len(pending) - 1:,} more of {plural(len(parts), 'part')}" if len(pending) > 1 else ""
        return Concern(kind="changelog", sentence=f"the {pending[0]} is not written{more}", fix=fix)
    late = [each for each, tails in standing.tails.items() if tails[-1].number > written.last_tail(each)]
    if not late:
        return None
    sentence = f"the new changelog of {late[0]} lacks what a catch-up has brought to the new store"
    return Concern(kind="changelog", sentence=sentence, fix="stateferry catch-up SPEC writes it")
