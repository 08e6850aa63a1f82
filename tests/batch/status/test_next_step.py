"""The next step that `status` names in each state of a migration, and what counts as a run."""

from pathlib import Path

from migrate import Spec, abandon, cutover, finalize, plan, report, rollback, run, status, verify
from migrate.batch.ledger.standing import read_standing
from migrate.batch.ledger.table import Ledger
from migrate.errors import RefusedError, SourceChangedError, VerificationError
from tests.shared.going_live import change, found_wrong, in_place
from tests.support import raises

READY = "with the application still stopped: stateferry cutover SPEC puts the new stores in the old ones' places"
START_OVER = "from then on: stateferry abandon SPEC, then stateferry run SPEC"
ROLLED_BACK = (
    "start the old version of the application; until it has written to the old stores: "
    f"stateferry cutover SPEC exchanges the stores again; {START_OVER}"
)
DISCARDED = ROLLED_BACK.replace(
    "cutover SPEC exchanges the stores again", "run SPEC makes the discarded new stores again"
)
CUT_OVER = (
    "start the new version of the application; stateferry rollback SPEC goes back, stateferry finalize SPEC gives that "
    "up and frees the space"
)
OVER = "this migration is over; another one of the same store needs another `name`"


def check_next(spec: Spec, said: str) -> None:
    assert status(spec).next_step == report(spec).next_step == said


def test_every_state_has_one_next_step_that_can_be_taken(tmp_path: Path) -> None:
    spec = in_place(tmp_path)
    check_next(spec, "stateferry run SPEC")
    assert run(spec).next_step == f"the new stores are in {spec.home / 'new'}, the old ones are unchanged; {READY}"
    check_next(spec, READY)
    assert plan(spec).verdict.next_step == READY
    assert cutover(spec).next_step == CUT_OVER
    check_next(spec, CUT_OVER)
    assert rollback(spec).next_step == ROLLED_BACK
    check_next(spec, ROLLED_BACK)
    cutover(spec)
    change(tmp_path / "old")
    assert rollback(spec, discard_new_writes=True).next_step == DISCARDED
    check_next(spec, DISCARDED)
    run(spec)
    check_next(spec, READY)
    cutover(spec)
    assert run(spec).next_step == f"already migrated: the new stores are where the application looks; {CUT_OVER}"
    assert finalize(spec).next_step == OVER
    check_next(spec, OVER)


def test_a_refused_run_leaves_no_snapshot_for_the_application_to_be_started_on(tmp_path: Path) -> None:
    """The next run takes its own: a state of `stateferry snapshot` is meant only where the spec says so."""
    spec = in_place(tmp_path, conversion={"function": lambda record: 1 / 0})
    raises(RefusedError, "none of", run, spec)
    assert status(spec).state == "snapshot taken"
    check_next(spec, "stateferry run SPEC")


def test_only_the_runs_of_run_are_runs(tmp_path: Path) -> None:
    spec = in_place(tmp_path)
    first = run(spec).run_id
    verify(spec)
    cutover(spec)
    verify(spec)
    rollback(spec)
    second = run(spec).run_id
    cutover(spec)
    standing = read_standing(spec.home)
    Ledger(spec.home, standing.rows[0].migration_id, "killed", command="switch")  # before it committed its step
    finalize(spec)
    assert [each.run_id for each in report(spec).runs] == [first, second]
    assert status(spec).runs == 2
    steps = [step.step for step in report(spec).steps]
    assert [step for step in steps if step in ("cut-over", "rolled-back", "finalized")] == [
        "cut-over", "rolled-back", "cut-over", "finalized",
    ]  # fmt: skip


def test_a_digest_that_finds_nothing_names_the_mismatch_that_stands(tmp_path: Path) -> None:
    spec = in_place(tmp_path)
    found_wrong(in_place, tmp_path, "full")
    weaker = in_place(tmp_path, run={"verify": "off"})
    raises(VerificationError, "found the new stores wrong", run, weaker)
    told = verify(weaker, mode="digest")
    assert told.verification.ok
    assert [concern.kind for concern in told.concerns] == ["mismatch"]
    assert told.next_step == status(weaker).next_step
    for words in ('[run] verify = "full"', "stateferry verify SPEC --mode full", "stateferry abandon SPEC"):
        assert words in told.next_step
    assert verify(weaker, mode="full").concerns == ()
    assert status(spec).state == "verified"


def test_a_changed_spec_needs_another_name_where_the_new_stores_are_in_use_and_else_abandon(tmp_path: Path) -> None:
    spec = in_place(tmp_path)
    changed = in_place(tmp_path, conversion={"default_timestamp_ms": 5})
    run(spec)
    assert "stateferry abandon SPEC" in raises(SourceChangedError, "", run, changed).hint
    cutover(spec)
    for verb in (run, verify):
        in_use = raises(SourceChangedError, "", verb, changed)
        assert "needs another `name`" in in_use.hint
        assert "abandon" not in in_use.hint
    raises(RefusedError, "holds old stores", abandon, changed)
