"""What a row vouches for is durable before the row is written, and the row before the next step begins (I1).

Seen from outside: every system call of a real run is recorded, and replayed on a disk that knows what a power cut
could take away.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import migrate
from migrate import load_spec
from migrate.batch.ledger.dead_letters import write_dead_letters
from migrate.batch.ledger.table import SharedCommits
from migrate.batch.source.snapshot import take_snapshot
from migrate.batch.steps.prepare import prepare
from migrate.batch.steps.publish import rename_into_place
from migrate.batch.switch.store_locations import sync_names
from migrate.engine.rejects import KeepRejects
from migrate.model.ledger_row import Step
from migrate.stores.files import write_durably
from tests.durability.disk import KILL, POWER_CUTS, Disk
from tests.durability.order import Commit, commits_of, complaints
from tests.durability.recording import Recording, record_verb
from tests.durability.trace import Call, Op, parse, require_strace
from tests.shared.refunds import make_migration, result_of


@pytest.fixture(autouse=True)
def _strace() -> None:
    require_strace()


def _content(base: Path) -> dict[str, tuple[int, bytes]]:
    """Every file: how many names it has, and its bytes."""
    files = (path for path in base.rglob("*") if path.is_file())
    return {str(path.relative_to(base)): (path.stat().st_nlink, path.read_bytes()) for path in files}


def test_the_recorder_misses_nothing(calm: Recording, tmp_path: Path) -> None:
    """Replayed, the calls give the directory that the run left, byte for byte and link for link."""
    disk = calm.disk()
    for call in calm.calls:
        disk.apply(call)
    disk.write_to(tmp_path / "replayed", KILL)
    assert _content(tmp_path / "replayed") == _content(calm.base)


def test_every_step_is_durable_before_its_row_and_every_row_before_the_next_step(calm: Recording) -> None:
    steps = {row.step for commit in commits_of(calm.home) for row in commit.rows}
    assert steps == {Step.RUN, Step.CHUNK, Step.ASSEMBLED, Step.VERIFIED, Step.PUBLISHING, Step.PUBLISHED}
    assert complaints(calm) == []


def _left_out(by: Callable[..., object], name: str) -> str:
    """The function `name` does nothing in the module that defines `by`, which calls it."""
    return f"{by.__module__}:{name}"


@pytest.mark.parametrize(
    ("by", "name", "first"),
    [
        (take_snapshot, "fsync_all", ".tmp is renamed"),
        (KeepRejects, "fsync_file", "the receipt of"),
        (write_dead_letters, "fsync_tree", "dead-letters"),
        (SharedCommits, "fsync_all", "assembled row"),
        (rename_into_place, "fsync_tree", "publishing row"),
        (rename_into_place, "fsync_directory", "published row"),
        (write_durably, "fsync_directory", "the name of"),
        (write_durably, "os.fsync", "stateferry-folder.json"),
        (prepare, "claim", "stateferry-folder.json does not exist"),
    ],
)
def test_a_sync_that_is_left_out_is_missed(by: Callable[..., object], name: str, first: str, tmp_path: Path) -> None:
    make_migration(tmp_path / "base")
    found = complaints(record_verb(tmp_path / "base", broken=(_left_out(by, name),)))
    assert found
    assert first in found[0]


def _switched(base: Path, *verbs: str) -> None:
    """A migration in place, as far as these verbs bring it."""
    file = make_migration(base, publishes=False)
    for verb in verbs:
        getattr(migrate, verb)(load_spec(file))


@pytest.mark.parametrize(
    ("before", "verb", "steps"),
    [
        (("run",), "cutover", {Step.CUTTING_OVER, Step.CUT_OVER}),
        (("run", "cutover"), "rollback", {Step.ROLLING_BACK, Step.ROLLED_BACK}),
        (("run", "cutover"), "finalize", {Step.FINALIZING, Step.FINALIZED}),
    ],
)
def test_a_switch_is_intended_durably_and_done_durably_before_it_is_said(
    before: tuple[str, ...], verb: str, steps: set[Step], tmp_path: Path
) -> None:
    base = tmp_path.resolve() / "base"
    _switched(base, *before)
    recording = record_verb(base, verb)
    assert complaints(recording) == []
    assert steps <= {row.step for commit in commits_of(recording.home) for row in commit.rows}
    moves = [call for call in recording.calls if call.op is Op.EXCHANGE and "orders-app" in call.path + call.other]
    assert len(moves) == (0 if verb == "finalize" else 2)


@pytest.mark.parametrize(("by", "name"), [(sync_names, "fsync_all"), (write_durably, "fsync_directory")])
def test_a_sync_that_a_switch_leaves_out_is_missed(by: Callable[..., object], name: str, tmp_path: Path) -> None:
    base = tmp_path.resolve() / "base"
    _switched(base, "run")
    assert complaints(record_verb(base, "cutover", broken=(_left_out(by, name),)))


Moment = Callable[[Call, list[Commit]], bool]


def _rename_to(name: str) -> Moment:
    return lambda call, _: call.op is Op.RENAME and call.other.endswith(name)


def _row(step: Step) -> Moment:
    """The entry of the log with the first row of this kind appears."""
    return lambda call, commits: next(c for c in commits if step in {row.step for row in c.rows}).is_made_by(call)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(_rename_to("/snapshot"), id="the snapshot got its name"),
        pytest.param(_rename_to("/plan-0001.json"), id="the plan got its name"),
        pytest.param(_row(Step.RUN), id="the run got its row"),
        pytest.param(_rename_to(".receipt.json"), id="a receipt got its name"),
        pytest.param(_row(Step.CHUNK), id="a chunk got its row"),
        pytest.param(_row(Step.ASSEMBLED), id="a new store got its row"),
        pytest.param(_row(Step.PUBLISHING), id="the intent to publish got its row"),
        pytest.param(_rename_to("/new/orders-app"), id="the new directory got its name"),
        pytest.param(_row(Step.PUBLISHED), id="the new directory got its row"),
    ],
)
def test_what_a_killed_run_did_not_sync_the_next_one_does(moment: Moment, calm: Recording, base: Path) -> None:
    """A kill takes nothing away: the next run finds what the first one made, and builds on it."""
    expected = result_of(base)
    commits = commits_of(calm.home)
    disk = calm.disk()
    for call in calm.calls:
        disk.apply(call)
        if moment(call, commits):
            break
    else:
        raise AssertionError("the run never came there")
    disk.write_to(base, KILL)
    second = record_verb(base, begin=disk)
    assert complaints(second) == []
    assert result_of(base) == expected


def test_a_tracer_that_loses_its_way_says_so() -> None:
    for line in (
        "1 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3</data/file>, 0) = 0x7f50a31eb000",
        "1 sync() = 0",
        "1 io_uring_setup(8, {flags=0}) = 3<anon_inode:[io_uring]>",
    ):
        with pytest.raises(ValueError, match=r"written through memory|not followed"):
            list(parse([line]))


def test_a_call_that_was_interrupted_counts_from_its_end() -> None:
    lines = [
        "1 fsync(3</data/file> <unfinished ...>",
        r'2 write(4</data/file>, "a\"\0\00012", 5) = 5',
        "1 <... fsync resumed>) = 0",
        '1 unlink("/data/file") = -1 ENOENT (No such file or directory)',
    ]
    write, sync = parse(lines)
    assert (write.op, write.path, write.data) == (Op.WRITE, "/data/file", b'a"\0\x0012'[:5])
    assert (sync.op, sync.began, sync.ended) == (Op.SYNC, 0, 2)


def test_an_exchange_is_one_step_and_durable_by_either_directory(tmp_path: Path) -> None:
    for name in ("old/store", "new/store"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "which").write_text(name)
    place = [str(tmp_path / name / "store") for name in ("old", "new")]
    line = f'1 renameat2(AT_FDCWD</>, "{place[0]}", AT_FDCWD</>, "{place[1]}", RENAME_EXCHANGE) = 0'
    disk = Disk(tmp_path)
    for call in parse([line]):
        disk.apply(call)
    assert [disk.faults(Path(path)) for path in place] == [[f"the name of {path} is not synced"] for path in place]
    for cut, survivors in ((POWER_CUTS[0], ("old/store", "new/store")), (KILL, ("new/store", "old/store"))):
        disk.write_to(tmp_path / "after", cut)
        assert tuple((tmp_path / "after" / name / "store/which").read_text() for name in ("old", "new")) == survivors
    for call in parse([f"1 fsync(3<{tmp_path}/old>) = 0"]):
        disk.apply(replace(call, began=1))
    assert [disk.faults(Path(path)) for path in place] == [[], []]
