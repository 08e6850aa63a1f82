"""What a verification found wrong goes live only once it was assembled again and found right."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import RefusedError, Spec, VerificationError, cutover, finalize, rollback, run, status, verify
from migrate.batch.ledger.table import Ledger
from migrate.model.events import Event
from tests.shared.going_live import BOTH, RECORDS, Make, change, found_wrong, in_place, kinds, published, slot, steps
from tests.support import raises, read_family, tree_state


@BOTH
@pytest.mark.parametrize(("found_by", "then"), [("full", "off"), ("full", "digest"), ("digest", "off")])
def test_a_mismatch_holds_back_regardless_of_later_settings(
    make: Make, found_by: str, then: str, tmp_path: Path
) -> None:
    found_wrong(make, tmp_path, found_by)
    before = tree_state(tmp_path / "old")
    careless = make(tmp_path, run={"verify": then}, conversion={"allow": ["unverified"]})
    for _ in range(2):  # the first of these runs assembles the stores again
        with pytest.raises(VerificationError, match=rf"\({found_by}, .* found the new stores wrong") as caught:
            run(careless, unverified=True, accept_rejects=9)
        assert f'[run] verify = "{found_by}"' in caught.value.hint
        assert (status(careless).state, kinds(careless)["mismatch"]) == ("mismatch", "")
    if make is in_place:
        raises(VerificationError, "nothing was cut over: a verification", cutover, careless, unverified=True)
    assert tree_state(tmp_path / "old") == before
    assert not (tmp_path / "new").exists()
    strong = make(tmp_path, run={"verify": "full"})
    assert run(strong).state == ("verified" if make is in_place else "published")
    assert kinds(strong) == {}
    if make is in_place:
        assert cutover(strong).state == "cut over"


def test_a_digest_settles_what_a_digest_found(tmp_path: Path) -> None:
    found_wrong(published, tmp_path, "digest")
    assert run(published(tmp_path, run={"verify": "digest"})).state == "published"


def test_what_verify_found_goes_to_the_ledger_and_holds_back(tmp_path: Path) -> None:
    spec = in_place(tmp_path)
    run(spec)
    change(slot(spec))
    raises(VerificationError, "1 extra", verify, spec)
    assert steps(spec) == ["verified", "mismatch"]
    assert status(spec).state == "mismatch"
    raises(VerificationError, "found the new stores wrong", cutover, spec)
    assert run(spec).state == "verified"
    assert cutover(spec).state == "cut over"


def test_stores_that_were_not_assembled_again_stay_refuted(tmp_path: Path) -> None:
    """What was there when they were found wrong may be there again: nobody knows what else was."""
    spec = in_place(tmp_path)
    run(spec)
    place = slot(spec)
    shutil.copytree(place, tmp_path / "kept")
    change(place)
    raises(VerificationError, "", verify, spec)
    shutil.rmtree(place)
    (tmp_path / "kept").rename(place)
    assert verify(spec).verification.ok
    raises(VerificationError, "", cutover, spec)
    run(spec)
    assert slot(spec) != place
    assert cutover(spec).state == "cut over"


def test_a_weaker_verify_settles_nothing(tmp_path: Path) -> None:
    found_wrong(in_place, tmp_path, "full")
    spec = in_place(tmp_path, run={"verify": "off"})
    raises(VerificationError, "", run, spec)
    assert verify(spec, mode="digest").verification.ok
    raises(VerificationError, "", cutover, spec)
    assert verify(spec, mode="full").verification.ok
    assert cutover(spec).state == "cut over"


def test_a_run_at_work_is_not_fenced_off_by_verify(tmp_path: Path) -> None:
    spec = in_place(tmp_path, run={"chunk_size": "2 KiB"})
    refused: list[str] = []

    def ask(event: Event) -> None:
        if event.name == "chunk.committed":
            caught = raises(RefusedError, "another run of this migration is at work", verify, spec)
            refused.append(caught.hint)

    assert run(spec, on_event=ask).state == "verified"
    assert refused


def test_a_run_of_another_host_is_not_fenced_off_by_verify(tmp_path: Path) -> None:
    spec = in_place(tmp_path)
    run(spec)
    others: list[Ledger] = []

    def begin(event: Event) -> None:
        if event.name == "verify.started":
            others.append(Ledger(spec.home, str(status(spec).migration_id), "another"))

    raises(RefusedError, "a run on another host", verify, spec, on_event=begin)
    others[0].check_not_fenced()
    assert verify(spec).verification.ok


# Found wrong while in use


def damaged_in_use(make: Make, base: Path) -> Spec:
    spec = make(base)
    run(spec)
    if make is in_place:
        cutover(spec)
    change(base / ("old" if make is in_place else "new"))
    raises(VerificationError, "1 extra", verify, spec)
    return spec


@BOTH
def test_a_mismatch_in_use_is_reported_and_the_way_back_stays(make: Make, tmp_path: Path) -> None:
    spec = damaged_in_use(make, tmp_path)
    told = status(spec)
    assert told.state == ("cut over" if make is in_place else "published")
    assert kinds(spec) == {"mismatch": ""}
    assert ("rollback" if make is in_place else "the old state directory is as it was") in told.next_step
    before = tree_state(spec.home / ("old" if make is in_place else "snapshot"))
    verbs: list[Callable[[Spec], object]] = [run, finalize, *([cutover] if make is in_place else [])]
    for verb in verbs:
        raises(VerificationError, "found the new stores wrong", verb, spec)
    assert tree_state(spec.home / ("old" if make is in_place else "snapshot")) == before
    assert finalize(spec, accept_mismatch=True).state == "finalized"
    assert kinds(spec)["mismatch"].startswith("--accept-mismatch, by ")
    assert run(spec).state == "finalized"


def test_a_mismatch_in_use_can_be_rolled_back_and_made_again(tmp_path: Path) -> None:
    spec = damaged_in_use(in_place, tmp_path)
    assert rollback(spec, discard_new_writes=True).state == "rolled back"
    assert read_family(tmp_path / "old") == RECORDS
    assert "stateferry run SPEC" in status(spec).next_step
    raises(RefusedError, "not complete", cutover, spec)
    run(spec)
    assert cutover(spec).state == "cut over"
    assert finalize(spec).state == "finalized"
