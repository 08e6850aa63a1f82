"""A full verification that was killed goes on where it stopped; what was compared counts for those very files only."""

import os
import re
import sys
from collections.abc import Callable
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest

from migrate import (
    InterruptedMigrationError,
    MigrationError,
    Spec,
    VerificationError,
    cutover,
    report,
    run,
    status,
    verify,
)
from migrate.batch.chunk.compare_stores import CompareTask
from migrate.batch.ledger.standing import Standing
from migrate.batch.plan.cut import ranges_between
from migrate.batch.status.status import Watch
from migrate.batch.steps import comparisons
from migrate.batch.stop import Stop
from migrate.model.events import Event
from migrate.model.key_range import KeyRange, tiling_flaw
from migrate.model.ledger_row import Row, Step
from migrate.show.output import Output
from migrate.show.page.run_page import run_page
from migrate.show.text.progress import progress, watch_display
from migrate.show.text.report_text import show_history, show_status, show_verify
from migrate.stores.rocksdb.database import open_read_only
from tests.batch.switch.support import StopAt, StoppedError
from tests.shared.going_live import slot
from tests.support import flip_byte, make_families, make_store, numbered, open_store, raises, raw_spec, read_ledger

RECORDS = numbered(1500)
KEYS = list(RECORDS)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each range that was compared is committed."""
    monkeypatch.setattr(comparisons, "SECONDS_BETWEEN_COMMITS", 0.0)


def _spec(base: Path, **how: object) -> Spec:
    if not (base / "old").exists():
        make_store(base / "old", RECORDS)
    return raw_spec(base, base / "old", target={"path": None}, run={"chunk_size": "8 KiB", **how})


def _compared(rows: list[Row]) -> list[KeyRange]:
    return sorted((row.keys for row in rows if row.step is Step.COMPARED), key=lambda keys: keys.start or b"")


def _killed(spec: Spec, command: Callable[..., object] = verify, occurrence: int = 3) -> list[KeyRange]:
    """The ranges that were committed before the end."""
    raises(StoppedError, "", command, spec, on_event=StopAt("verify.ranges-committed", occurrence))
    done = _compared(Standing(spec.home, read_ledger(spec.home)).compared_so_far)
    assert len(done) == occurrence
    return done


def _assembled(base: Path, **how: object) -> Spec:
    """A migration with new stores that nobody has compared."""
    run(_spec(base, verify="off", **how))
    return _spec(base, **how)


@pytest.mark.parametrize("command", [run, verify])
def test_a_resume_compares_the_rest_alone(command: Callable[..., object], tmp_path: Path) -> None:
    spec = _assembled(tmp_path)
    done = _killed(spec, command)
    watch = StopAt()
    command(spec, on_event=watch)
    rows = read_ledger(spec.home)
    assert watch.seen["verify.resumed"] == 1
    assert watch.seen["verify.progressed"] == len(_compared(rows)) - len(done) > 3
    assert tiling_flaw(_compared(rows)) is None
    assert rows[-1].step is Step.VERIFIED
    found = rows[-1].verification
    assert (found.records, found.ok) == (1500, True)
    assert 0 < found.records_before < 1500


def test_a_kill_after_the_last_range_leaves_nothing_to_compare(tmp_path: Path) -> None:
    spec = _assembled(tmp_path)
    whole = StopAt()
    verify(spec, on_event=whole)
    _killed(spec, occurrence=whole.seen["verify.ranges-committed"])
    watch = StopAt()
    assert verify(spec, on_event=watch).verification.records == 1500
    assert (watch.seen["verify.resumed"], watch.seen["verify.progressed"]) == (1, 0)


def test_ranges_of_a_table_that_was_damaged_since_are_compared_again(tmp_path: Path) -> None:
    """What was found equal then does not vouch for the bytes of now, though size and time are the same."""
    spec = _assembled(tmp_path)
    assert _killed(spec, run)[0].start is None
    file = min((spec.home / "new").rglob("*.sst"))  # with the first keys
    middle = file.stat().st_size // 2  # in no block that the search for keys between ranges reads
    flip_byte(file, middle, 0x10, quietly=True)
    run(spec)
    cutover(spec)
    with open_read_only(spec.source_path) as database:
        assert sum(len(batch) for family in database.families for batch in database.batches(family)) == 1500


def test_a_verification_that_has_ended_is_not_resumed(tmp_path: Path) -> None:
    spec = _assembled(tmp_path)
    for _ in range(2):
        watch = StopAt()
        assert verify(spec, on_event=watch).verification.records_before == 0
        assert watch.seen["verify.resumed"] == 0
        assert status(spec).verifying is None


def test_stores_that_were_moved_are_compared_from_the_start(tmp_path: Path) -> None:
    spec = _assembled(tmp_path)
    _killed(spec)
    cutover(spec, unverified=True)
    assert status(spec).verifying is None
    assert verify(spec).verification.records_before == 0


@pytest.mark.parametrize("chunk_size", ["3 KiB", "20 KiB", "1 GiB"])
def test_a_resume_may_cut_elsewhere(chunk_size: str, tmp_path: Path) -> None:
    spec = _assembled(tmp_path)
    _killed(spec)
    spec = _spec(tmp_path, chunk_size=chunk_size)
    assert verify(spec).verification.records_before > 0
    assert tiling_flaw(_compared(read_ledger(spec.home))) is None


def test_a_gap_among_the_committed_ranges_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = _assembled(tmp_path)
    _killed(spec, occurrence=4)
    known = Standing(spec.home, read_ledger(spec.home)).compared_so_far
    monkeypatch.setattr(Standing, "compared_so_far", [known[0], known[3]])
    watch = StopAt()
    assert verify(spec, on_event=watch).verification.records == 1500
    assert watch.seen["verify.resumed"] == 1


def test_a_resume_that_leaves_a_gap_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = _assembled(tmp_path)
    _killed(spec)
    monkeypatch.setattr(comparisons, "ranges_between", lambda *args: ranges_between(*args)[1:])
    caught = raises(MigrationError, "the verification was not whole", verify, spec)
    assert not isinstance(caught, VerificationError)
    assert status(spec).state == "assembled"


def _rewrite_a_value(store: Path) -> None:
    with open_store(store) as database:
        database[KEYS[0]] = b"other"


def _restore(store: Path) -> None:
    """The same bytes, in files of another time."""
    for file in store.glob("*.sst"):
        os.utime(file, ns=(0, 0))


@pytest.mark.parametrize(("change", "is_wrong"), [(_rewrite_a_value, True), (_restore, False)])
def test_ranges_of_other_files_do_not_count(change: Callable[[Path], None], is_wrong: bool, tmp_path: Path) -> None:
    spec = _assembled(tmp_path)
    _killed(spec)
    change(slot(spec))
    watch = StopAt()
    if is_wrong:
        raises(VerificationError, "1 differing", verify, spec, on_event=watch)
    else:
        assert verify(spec, on_event=watch).verification.records_before == 0
    assert watch.seen["verify.resumed"] == 0


def test_a_byte_that_flips_after_the_kill_is_found(tmp_path: Path) -> None:
    spec = _assembled(tmp_path)
    _killed(spec, run)
    (largest,) = sorted(slot(spec).glob("*.sst"), key=lambda file: file.stat().st_size)[-1:]
    flip_byte(largest, 100)
    watch = StopAt()
    assert run(spec, on_event=watch).verification.records_before == 0
    assert watch.seen["warning"] >= 1
    assert watch.seen["assemble.committed"] == 1


def test_stores_that_are_assembled_again_are_compared_from_the_start(tmp_path: Path) -> None:
    spec = _assembled(tmp_path)
    _killed(spec)
    slot(spec).rename(tmp_path / "lost")
    assert run(spec).verification.records_before == 0


def test_another_conversion_compares_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the identity of the migration is the same."""
    spec = _assembled(tmp_path)
    _killed(spec)
    monkeypatch.setattr(comparisons, "spec_identity", lambda *_: {"function": "another"})
    assert verify(spec).verification.records_before == 0


def test_a_range_with_a_difference_is_compared_again(tmp_path: Path) -> None:
    spec = _assembled(tmp_path)
    _rewrite_a_value(slot(spec))
    done = _killed(spec)
    assert KEYS[0] not in done[0]
    watch = StopAt()
    raises(VerificationError, "1 differing", verify, spec, on_event=watch)
    assert watch.seen["verify.resumed"] == 1
    assert status(spec).verifying is None


def test_families_that_were_cut_differently_are_searched_for_extra_keys(tmp_path: Path) -> None:
    """A task for a whole family looks beyond its keys; one family may have had such a task, and another ranges."""
    make_families(tmp_path / "old", {"default": dict(RECORDS), "more": dict(RECORDS)})
    spec = _assembled(tmp_path, chunk_size="1 GiB")
    with open_store(slot(spec)) as database:
        column = database.get_column_family("more")
        column[b"\x00before all others"] = b"x"
        del column
    _killed(spec, occurrence=1)
    with pytest.raises(VerificationError, match="1 extra"):
        verify(_spec(tmp_path))


def test_ranges_between_points_leave_no_gap() -> None:
    done = [KeyRange(start=b"c", end=b"e"), KeyRange(start=b"g")]
    left = ranges_between([b"b", b"c", b"d", b"e", b"f", b"x"], done)
    assert [(keys.start, keys.end) for keys in left] == [*pairwise([None, b"b", b"c"]), *pairwise([b"e", b"f", b"g"])]
    assert ranges_between([], []) == [KeyRange()]
    assert ranges_between([b"b"], [KeyRange()]) == []


# What is committed when


def test_a_short_verification_commits_its_result_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert comparisons.SECONDS_BETWEEN_COMMITS > 0.5
    spec = _spec(tmp_path)
    run(spec)
    assert _compared(read_ledger(spec.home)) == []


def test_a_request_to_stop_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = _assembled(tmp_path)
    monkeypatch.setattr(comparisons, "SECONDS_BETWEEN_COMMITS", 3600.0)
    stop, watch = Stop(), StopAt()

    def ask(event: Event) -> None:
        watch(event)
        if watch.seen["verify.progressed"] == 4:
            stop.request()

    raises(InterruptedMigrationError, "", verify, spec, on_event=ask, stop=stop)
    assert len(_compared(read_ledger(spec.home))) == watch.seen["verify.progressed"] == 4
    assert watch.seen["verify.ranges-committed"] == 1


# What is shown


def test_a_log_a_terminal_and_the_page_show_how_far_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = _assembled(tmp_path)
    _killed(spec)
    output = Output()
    with watch_display(output) as show:
        show(Watch(spec).poll())
    words = r"\d\d\.\d %: [\d,]+ of 1,500 records, [\d,]+ records/s, [\d.]+ m?s left"
    assert re.search(f" assembled, verifying {words}\n", capsys.readouterr().out)
    for lines in (show_status(status(spec), output), show_history(report(spec), output)):
        assert re.search(f"verifying +{words}", "\n".join(lines))
    assert re.search(r"Not finished\.</b> [\d,]+ of 1,500 records are compared", run_page(report(spec)))
    assert {step.step for step in report(spec).steps} == {"assembled"}
    assert not Watch(spec).poll().is_over
    again = "of them before an interruption), in"
    assert again in "\n".join(show_verify(verify(spec), output))
    assert "that were compared before an interruption" in run_page(report(spec))
    assert Watch(_spec(tmp_path, verify="off")).poll().is_over


def test_a_bar_shows_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = _assembled(tmp_path)
    _killed(spec)
    terminal = StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress(Output()) as listener:
        verify(spec, on_event=listener)
    assert re.search(r"verify .*100%  1,500 records, [\d,]+/s", terminal.getvalue())


def test_status_and_watch_show_how_far_it_is(tmp_path: Path) -> None:
    spec = _assembled(tmp_path)
    looks = [status(spec).verifying]
    tasks: list[CompareTask] = []

    def look(event: Event) -> None:
        if event.name == "verify.ranges-committed":
            tasks.extend(event.facts["ranges"])
            looks.append(status(spec).verifying)
            assert Watch(spec).poll().verifying == looks[-1]

    run(spec, on_event=look)
    looks.append(status(spec).verifying)
    assert looks[0] is looks[-1] is None
    shown = [each for each in looks if each is not None]
    assert len(shown) == len(tasks)
    shares = [each.share_done for each in shown]
    assert shares == sorted(shares)
    assert (shown[-1].records, shown[-1].records_expected, shares[-1]) == (1500, 1500, 1.0)
    assert all(each.records_per_second and each.seconds_left is not None for each in shown)
    assert shown[-1].seconds_left == 0
