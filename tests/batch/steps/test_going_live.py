"""What nobody has verified, and what lacks records, goes live only once that is accepted."""

from pathlib import Path

import pytest

from migrate import RefusedError, cutover, rollback, run, status, verify
from migrate.errors import RejectedError
from tests.batch.switch.support import StopAt, StoppedError
from tests.shared.going_live import BOTH, REJECTED, Make, in_place, kinds, picky, published, slot
from tests.support import raises

# Never verified


def test_a_run_that_is_held_back_keeps_its_stores(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        run(published(tmp_path), on_event=StopAt("verify.started"))
    spec = published(tmp_path, run={"verify": "off"})
    raises(RefusedError, "not verified", run, spec)
    kept = slot(spec)
    allowed = published(tmp_path, run={"verify": "off"}, conversion={"allow": ["unverified"]})
    done = run(allowed)
    assert (done.published, done.chunks_done_before) == (tmp_path / "new", done.chunks_planned)
    assert slot(spec) == kept
    assert kinds(allowed)["unverified"].startswith('[conversion] allow = ["unverified"], by ')
    assert run(published(tmp_path)).state == "published", "the same migration, whatever was allowed"


def test_unverified_stores_are_not_cut_over_without_consent(tmp_path: Path) -> None:
    spec = in_place(tmp_path, run={"verify": "off"})
    assert run(spec).state == "assembled"
    assert "--unverified" in status(spec).next_step
    caught = raises(RefusedError, "not verified", cutover, spec)
    assert "--unverified" in caught.hint
    done = cutover(spec, unverified=True)
    assert [concern.kind for concern in done.concerns] == ["unverified"]
    assert kinds(spec)["unverified"].startswith("--unverified, by ")
    assert verify(spec).verification.ok
    assert kinds(spec) == {}


def test_a_verification_of_its_own_is_as_good_as_a_runs(tmp_path: Path) -> None:
    spec = in_place(tmp_path, run={"verify": "off"})
    run(spec)
    assert verify(spec).verification.ok
    assert status(spec).state == "verified"
    assert cutover(spec).state == "cut over"


# Records left out


def test_rejects_are_cut_over_only_once_they_are_accepted(tmp_path: Path) -> None:
    spec = picky(in_place, tmp_path)
    done = run(spec)
    assert (done.state, [concern.accepted for concern in done.concerns]) == ("verified", [""])
    assert f"stateferry cutover SPEC --accept-rejects {REJECTED}" in done.next_step
    for too_few in (None, 0, REJECTED - 1):
        raises(RejectedError, "nothing was cut over", cutover, spec, accept_rejects=too_few)
    assert cutover(spec, accept_rejects=REJECTED + 1).state == "cut over"
    assert kinds(spec)["rejects"].startswith(f"--accept-rejects {REJECTED + 1}, by ")
    rollback(spec)
    assert kinds(spec) == {"rejects": ""}
    raises(RejectedError, "", cutover, spec)


@pytest.mark.parametrize("cap", [{"max_rejects": REJECTED}, {"max_reject_share": 0.01}])
@BOTH
def test_a_cap_of_the_spec_accepts_rejects(make: Make, cap: dict[str, float], tmp_path: Path) -> None:
    spec = picky(make, tmp_path, **cap)
    run(spec)
    if make is in_place:
        cutover(spec)
    ((name, value),) = cap.items()
    assert kinds(spec)["rejects"].startswith(f"[run] {name} = {value}, by ")


def test_a_cap_that_was_lowered_since_accepts_nothing(tmp_path: Path) -> None:
    run(picky(in_place, tmp_path, max_rejects=REJECTED))
    with pytest.raises(RejectedError):
        cutover(picky(in_place, tmp_path, max_rejects=REJECTED - 1, max_reject_share=1.0))


# Killed in between


@pytest.mark.parametrize("event", ["publish.intended", "publish.renamed"])
def test_what_was_accepted_holds_for_the_run_that_finishes(event: str, tmp_path: Path) -> None:
    """Once it is renamed it is live; before that it is asked again."""
    spec = picky(published, tmp_path)
    raises(StoppedError, "", run, spec, accept_rejects=REJECTED, on_event=StopAt(event))
    if event == "publish.intended":
        raises(RejectedError, "", run, spec)
        return
    assert run(spec).state == "published"
    assert kinds(spec)["rejects"].startswith(f"--accept-rejects {REJECTED}, by ")


def test_a_cut_over_that_was_killed_is_finished_without_asking_again(tmp_path: Path) -> None:
    spec = picky(in_place, tmp_path)
    run(spec)
    raises(StoppedError, "", cutover, spec, accept_rejects=REJECTED, on_event=StopAt("cutover.exchanged"))
    assert cutover(spec).state == "cut over"
    assert kinds(spec)["rejects"].startswith(f"--accept-rejects {REJECTED}, by ")
