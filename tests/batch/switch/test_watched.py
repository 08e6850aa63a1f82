"""What others see during a switch: no foreign name, no missing directory, no mixture of two stores."""

import subprocess
import sys
from pathlib import Path

import pytest

from migrate import cutover, rollback
from tests.batch.switch.inotify import watching
from tests.batch.switch.support import FIRST, PARTITIONS, Application, StopAt

linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
ROUNDS = 4

# Opens directories as RocksDB does: the directory, then what CURRENT names, through one descriptor of the directory.
# Prints what was wrong, or how often which store was found whole.
LOOK = """
import collections, os, select, sys
expected = {}
for line in sys.argv[2:]:
    identity, _, names = line.partition(" ")
    expected[identity] = set(names.split())
found = collections.Counter()
print("looking", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        folder = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        found["missing"] += 1
        continue
    names = set(os.listdir(folder))
    read = lambda name: os.read(os.open(name, os.O_RDONLY, dir_fd=folder), 100).decode().strip()
    try:
        identity, manifest = read("IDENTITY"), read("CURRENT")
        whole = names == expected.get(identity) and manifest in names
        found[identity if whole else "mixture"] += 1
    except FileNotFoundError as error:
        found["incomplete"] += 1
    os.closerange(folder, folder + 16)
for identity, times in found.items():
    print(identity, times)
"""


@linux
def test_no_name_appears_but_those_that_were_there_and_none_is_missing(app: Application) -> None:
    before = {app.path, *app.path.rglob("*")}
    exchanged = [(what, app.live(partition)) for partition in PARTITIONS for what in ("came", "went")]
    with watching(app.path) as watch:
        cutover(app.spec)
        assert watch.changes() == exchanged, "the other one came before the one went: at no moment was there none"
        rollback(app.spec)
        assert watch.changes() == exchanged
    assert {app.path, *app.path.rglob("*")} == before


@linux
def test_no_name_appears_but_those_of_side_files_where_these_change_too(later: Application) -> None:
    allowed = {later.live(partition) for partition in PARTITIONS}
    allowed |= {later.checkpoint(task) for task in ("0_0", "0_1")}
    allowed |= {later.path / task / f"{store}.position" for task in ("0_0", "0_1") for store in ("orders", "refunds")}
    assert all(path.exists() for path in allowed)
    with watching(later.path) as watch:
        for switch in (cutover, rollback):
            switch(later.spec)
            changes = watch.changes()
            assert {path for _, path in changes} == allowed
            assert {path for what, path in changes if what == "went"} == set(map(later.live, PARTITIONS))


@linux
def test_a_foreign_name_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    with watching(tmp_path) as watch:
        (tmp_path / "deep" / "er" / "made").touch()
        (tmp_path / "deep" / "er" / "made").rename(tmp_path / "deep" / "moved")
        (tmp_path / "deep" / "moved").unlink()
        made, moved = tmp_path / "deep" / "er" / "made", tmp_path / "deep" / "moved"
        assert watch.changes() == [("came", made), ("went", made), ("came", moved), ("went", moved)]


def test_another_process_finds_one_of_the_two_stores_whole_at_any_time(app: Application) -> None:
    old = _inside(app.live(FIRST))
    new = _inside(app.staged(FIRST))
    looker = [sys.executable, "-c", LOOK, str(app.live(FIRST)), old, new]
    with subprocess.Popen(looker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "looking\n"
        for _ in range(ROUNDS):
            cutover(app.spec, on_event=StopAt())
            rollback(app.spec)
        found = process.communicate("\n")[0].splitlines()
    times = {name: int(count) for name, count in (line.split() for line in found)}
    assert set(times) == {old.partition(" ")[0], new.partition(" ")[0]}, times
    assert min(times.values()) > ROUNDS


def _inside(store: Path) -> str:
    """RocksDB's identity of a store and the names of its files."""
    return " ".join([(store / "IDENTITY").read_text().strip(), *sorted(path.name for path in store.iterdir())])
