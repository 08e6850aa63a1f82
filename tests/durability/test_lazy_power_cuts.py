"""Power cuts while a DualReadStore works: it then shows what it showed at one instant since the last flush.

No power is cut: what a disk may hold after it is worked out from the recorded calls and written out as real
directories, in several ways, since a disk may keep or lose whatever was not synced, and may do so for each database.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.durability.disk import KILL, POWER_CUTS, Cut, Disk
from tests.durability.lazy_program import FLUSH, OLD, ONE, STEPS, TWO, open_dual
from tests.durability.trace import Call, Op, record, require_strace
from tests.support import UNKNOWN_TIMESTAMP, make_store

BETWEEN = 16
"""Moments for each way to cut."""
_DIARIES = ("LOG", "rocksdict-config.json")
"""Files (by how their names begin) whose bytes tell the store nothing: no moments of their own."""

State = dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Loss:
    """What a power cut takes away, of each database."""

    old: Cut
    new: Cut

    def __str__(self) -> str:
        return self.old.name if self.old is self.new else f"old: {self.old.name}; new: {self.new.name}"


_NOTHING_LOST, _ALL_LOST = KILL, POWER_CUTS[0]
_SAME = [Loss(cut, cut) for cut in (KILL, *POWER_CUTS)]
_DIFFERENT = [Loss(_NOTHING_LOST, _ALL_LOST), Loss(_ALL_LOST, _NOTHING_LOST)]
CASES = [(ONE, loss) for loss in _SAME] + [(TWO, loss) for loss in _SAME + _DIFFERENT]


@dataclass(frozen=True, slots=True)
class Work:
    """All steps, traced, over the stores below `base`."""

    base: Path
    arrangement: str
    calls: list[Call]
    begin: Disk
    """Before the first call; never changed."""

    def moments(self) -> Iterator[tuple[Call, Disk, int]]:
        """Before each call that matters, and how many steps were done by then. The disk is not to be changed."""
        disk, done = deepcopy(self.begin), 0
        for call in self.calls:
            if not Path(call.path).name.startswith(_DIARIES):
                yield call, disk, done
            done += call.op is Op.EVENT
            disk.apply(call)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Work]:
    """One run for each arrangement."""
    require_strace()
    return {arrangement: _record(tmp_path_factory.mktemp("lazy").resolve(), arrangement) for arrangement in (ONE, TWO)}


def _record(folder: Path, arrangement: str) -> Work:
    base, events = folder / "base", folder / "events"
    base.mkdir()
    make_store(base / "old", OLD)
    begin = Disk(base)
    program = ["-m", "tests.durability.lazy_program", str(base), str(events), arrangement]
    calls = record(program, log=folder / "trace", events=events)
    assert sum(call.op is Op.EVENT for call in calls) == len(STEPS)
    return Work(base, arrangement, [call for call in calls if call.op is Op.EVENT or begin.concerns(call)], begin)


def _states() -> list[State]:
    """What is to be seen before the first step, and after each."""
    states: list[State] = [{key: UNKNOWN_TIMESTAMP + value for key, value in OLD.items()}]
    for step in STEPS:
        state = dict(states[-1])
        for key, value in step.changes:
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        states.append(state)
    return states


STATES = _states()
_FLUSHED = [number for number, step in enumerate(STEPS, 1) if step == FLUSH]


def _instants(done: int) -> range:
    """Which of the states may be left: from the last flush that was done to the step that was at work."""
    first = max((number for number in _FLUSHED if number <= done), default=0)
    return range(first, min(done + 1, len(STEPS)) + 1)


@pytest.mark.parametrize(("arrangement", "loss"), CASES, ids=str)
def test_a_power_cut_leaves_what_was_there_at_one_instant_since_the_last_flush(
    arrangement: str, loss: Loss, recorded: dict[str, Work], subtests: pytest.Subtests
) -> None:
    """Before calls spread evenly over all of them; where the databases lose different things, after each step too."""
    work = recorded[arrangement]
    moments = list(enumerate(call for call, _, _ in work.moments()))
    assert len(moments) > 100
    first = CASES.index((arrangement, loss)) * len(moments) // BETWEEN // len(CASES)
    wanted = {first + step * len(moments) // BETWEEN for step in range(BETWEEN)}
    if loss in _DIFFERENT:
        wanted |= {number for number, call in moments if call.op is Op.EVENT}
    for call, disk, done in (moment for number, moment in enumerate(work.moments()) if number in wanted):
        with subtests.test(f"before call {call.ended}, {done} steps done: {call.op} {call.path}"):
            disk.write_to(work.base, loss.new, others={"old": loss.old})
            _check(work, done)


def _check(work: Work, done: int) -> None:
    """Open, look, and let the rest converge: nothing that is seen changes by that."""
    with open_dual(work.base, work.arrangement) as store:
        seen = dict(store.all())
        assert any(seen == STATES[number] for number in _instants(done)), _differences(seen, done)
        store.converge(None, None)
        assert dict(store.all()) == seen


def _differences(seen: State, done: int) -> str:
    """What is wrong, against each state that would be right."""
    lines = []
    for number in _instants(done):
        right = STATES[number]
        keys = sorted(key for key in right.keys() | seen.keys() if right.get(key) != seen.get(key))
        wrong = [f"{key!r}: {seen.get(key)!r} for {right.get(key)!r}" for key in keys]
        lines.append(f"after {number} steps: {', '.join(wrong)}")
    return "\n".join(lines)
