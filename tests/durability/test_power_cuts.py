"""Power cuts at every event of a run and between: the next run finishes, and repeats no chunk that was durable.

No power is cut: what a disk may hold after it is worked out from the recorded calls and written out as a real
directory, in several ways, since a disk may keep or lose whatever was not synced.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from migrate import run
from migrate.batch.home import MARKER
from migrate.model.events import Event
from migrate.model.ledger_row import Step
from tests.durability.disk import POWER_CUTS, Cut, Disk
from tests.durability.order import Commit, check_is_synced, commits_of
from tests.durability.recording import Recording
from tests.durability.trace import Call, Op
from tests.shared.refunds import chunks_done, result_of

BETWEEN = 8
"""Moments between two events, for each way to cut."""


@dataclass(frozen=True, slots=True)
class Calm:
    """What an uninterrupted run gives."""

    result: dict[str, object]
    commits: list[Commit]
    chunks: int


@pytest.fixture(scope="module")
def reference(calm: Recording) -> Calm:
    return Calm(result_of(calm.base), commits_of(calm.home), chunks_done(calm.spec))


def _moments(recording: Recording, is_wanted: Callable[[Call], bool]) -> Iterator[tuple[Call, Disk]]:
    """Before each of these calls; the disk is not to be changed."""
    disk = recording.disk()
    for call in recording.calls:
        if is_wanted(call):
            yield call, disk
        disk.apply(call)


def _check(base: Path, recording: Recording, reference: Calm, disk: Disk, cut: Cut) -> None:
    """Crash, run again, and look."""
    safe = [commit for commit in reference.commits if not check_is_synced(disk, [commit], commit)]
    durable = sum(row.step is Step.CHUNK for commit in safe for row in commit.rows)
    disk.write_to(base, cut)
    seen: Counter[str] = Counter()

    def count(event: Event) -> None:
        seen[event.name] += 1

    report = run(recording.spec, on_event=count)
    assert report.state == "published"
    assert result_of(base) == reference.result
    assert seen["chunk.started"] <= reference.chunks - durable
    if "run.begun" in seen:
        assert chunks_done(recording.spec) == reference.chunks


@pytest.mark.parametrize("cut", POWER_CUTS[:2], ids=lambda cut: cut.name)
def test_a_power_cut_at_an_event(
    cut: Cut, calm: Recording, base: Path, reference: Calm, subtests: pytest.Subtests
) -> None:
    """At the first of its kind, and at one in the middle."""
    seen: Counter[str] = Counter()
    for call, disk in _moments(calm, lambda call: call.op is Op.EVENT):
        seen[call.path] += 1
        if seen[call.path] in (1, 4):
            with subtests.test(f"{call.path}, {seen[call.path]}"):
                _check(base, calm, reference, disk, cut)
    assert len(seen) > 15


@pytest.mark.parametrize("cut", POWER_CUTS, ids=lambda cut: cut.name)
def test_a_power_cut_between_events(
    cut: Cut, calm: Recording, base: Path, reference: Calm, subtests: pytest.Subtests
) -> None:
    """At moments spread evenly over all those that leave something different."""
    crashes = list(_different(calm, cut))
    assert len(crashes) > BETWEEN
    first = POWER_CUTS.index(cut) * len(crashes) // BETWEEN // len(POWER_CUTS)
    wanted = {crashes[first + step * len(crashes) // BETWEEN] for step in range(BETWEEN)}
    for call, disk in _moments(calm, wanted.__contains__):
        with subtests.test(f"before call {call.ended}: {call.op} {call.path}"):
            _check(base, calm, reference, disk, cut)


@pytest.mark.parametrize("cut", POWER_CUTS, ids=lambda cut: cut.name)
def test_a_power_cut_while_the_folder_is_made_ours(
    cut: Cut, calm: Recording, base: Path, reference: Calm, subtests: pytest.Subtests
) -> None:
    begun = [number for number, call in enumerate(calm.calls) if MARKER in f"{call.path} {call.other}"]
    calls = calm.calls[begun[0] : begun[-1] + 4]
    assert {Op.CREATE, Op.RENAME, Op.SYNC} <= {call.op for call in calls}
    for call, disk in _moments(calm, {*_different(calm, cut)}.intersection(calls).__contains__):
        with subtests.test(f"before call {call.ended}: {call.op} {call.path}"):
            _check(base, calm, reference, disk, cut)


def _different(recording: Recording, cut: Cut) -> Iterator[Call]:
    """The calls before which a crash leaves what it left at no earlier moment."""
    seen: set[int] = set()
    for call, disk in _moments(recording, lambda call: call.op is not Op.EVENT):
        if (left := disk.fingerprint(cut)) not in seen:
            seen.add(left)
            yield call
