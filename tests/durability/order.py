"""The order of a run, as docs/correctness.md has it, held against a recording.

What a row of the ledger vouches for is listed by step in REFERENTS; a new step needs a line there, and nothing else.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from migrate.batch.chunk.rewrite_chunk import chunk_directory
from migrate.batch.home import LOCK, MARKER
from migrate.model.journal import Exchange, Journal
from migrate.model.ledger_row import Row, Step
from migrate.model.receipt import Receipt
from tests.durability.disk import Disk, File, Folder
from tests.durability.recording import Recording
from tests.durability.trace import Call, Op

_CHANGES = set(Op) - {Op.SYNC, Op.EVENT}


def _chunk(row: Row, home: Path) -> list[Path]:
    receipt = Receipt.model_validate_json(row.detail)
    files = [written.file for written in receipt.written] + [receipt.rejects_file]
    beside = chunk_directory(home, receipt.store_partition, receipt.database) / f"{receipt.attempt}.receipt.json"
    made_of = [home / "snapshot", *home.glob("plan-*.json")]
    return [beside, *(home / file for file in files if file is not None), *made_of]


def _assembled(row: Row, home: Path) -> list[Path]:
    return [home / str(row.facts["folder"])]


def _compared(row: Row, home: Path) -> list[Path]:
    folders = row.facts["folders"]
    assert isinstance(folders, list)
    return [home / folder for folder in folders]


def _publishing(row: Row, home: Path) -> list[Path]:
    target = Path(str(row.facts["path"]))
    return [target.with_name(f".{target.name}.stateferry-{row.run_id}")]


def _published(row: Row, home: Path) -> list[Path]:
    return [Path(str(row.facts["path"]))]


def _exchanges(row: Row) -> tuple[Exchange, ...]:
    return Journal.model_validate_json(row.detail).exchanges


def _slots(row: Row, home: Path) -> list[Path]:
    return [home / exchange.staged for exchange in _exchanges(row)]


def _switched(row: Row, home: Path) -> list[Path]:
    return [*_live(row, home), *(home / each.old for each in _exchanges(row))]


def _live(row: Row, home: Path) -> list[Path]:
    application = Path(json.loads(Journal.model_validate_json(row.detail).source)["path"])
    return [home.parents[1] / application / each.partition.path for each in _exchanges(row)]


def _nothing(row: Row, home: Path) -> list[Path]:
    return []


REFERENTS: dict[Step, Callable[[Row, Path], list[Path]]] = {
    Step.RUN: _nothing,
    Step.CHUNK: _chunk,
    Step.ASSEMBLED: _assembled,
    Step.COMPARED: _nothing,  # that a range is equal; the row of the new store vouches for its files
    Step.VERIFIED: _compared,
    Step.MISMATCH: _compared,
    Step.PUBLISHING: _publishing,
    Step.PUBLISHED: _published,
    Step.CUTTING_OVER: _slots,
    Step.CUT_OVER: _switched,
    Step.ROLLING_BACK: _nothing,
    Step.ROLLED_BACK: _live,
    Step.FINALIZING: _nothing,
    Step.FINALIZED: _nothing,
}
"""The files and directories that must be safe before a row is written."""

AT_EVENTS: dict[str, Callable[[Path], list[Path]]] = {
    "snapshot.taken": lambda home: [home / "snapshot"],
    "plan.stored": lambda home: list(home.glob("plan-*.json")),
    "dead-letters.written": lambda home: [home / "dead-letters"],
}
"""What no row vouches for, and the event by which it must be safe."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of the ledger."""

    version: int
    entry: Path
    files: tuple[Path, ...]
    rows: tuple[Row, ...]

    def is_begun_by(self, call: Call) -> bool:
        """Whether this call is the first trace of it; delta-rs writes a file under another name first."""
        return call.op is Op.CREATE and call.path.startswith(tuple(map(str, (self.entry, *self.files))))

    def is_made_by(self, call: Call) -> bool:
        """Whether its entry appears in the log by this call."""
        return call.op in (Op.LINK, Op.RENAME) and call.other == str(self.entry)


def commits_of(home: Path) -> list[Commit]:
    """The ledger as the run left it."""
    ledger = home / "ledger"
    commits = []
    for version, entry in enumerate(sorted((ledger / "_delta_log").glob("*.json"))):
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        files = tuple(ledger / line["add"]["path"] for line in lines if "add" in line)
        (logged,) = [line["commitInfo"]["stateferry.rows"] for line in lines if "commitInfo" in line]
        commits.append(Commit(version, entry, files, tuple(Row.model_validate(row) for row in json.loads(logged))))
    return commits


def check_clean_at(disk: Disk, home: Path, commits: list[Commit], last: Commit) -> list[str]:
    """Why not everything that rows up to the commit `last` refer to is safe; empty: all of it is.

    What its own rows refer to must be there; what earlier ones do may have been removed since.
    """
    found = []
    for commit in commits[: last.version + 1]:
        for row in commit.rows:
            paths = [path for path in REFERENTS[row.step](row, home) if commit is last or disk.node(path) is not None]
            faults = [fault for path in paths for fault in disk.faults(path)]
            found += [f"commit {last.version}, {row.step} row of commit {commit.version}: {fault}" for fault in faults]
    return found


def check_is_synced(disk: Disk, commits: list[Commit], last: Commit) -> list[str]:
    """Why not every log entry up to the commit `last` is safe. Data files only render them."""
    entries = [commit.entry for commit in commits[: last.version + 1]]
    return [f"after commit {last.version}: {fault}" for entry in entries for fault in disk.faults(entry)]


def complaints(recording: Recording) -> list[str]:
    """All that is not in order; empty: the run was."""
    home = recording.home
    commits = commits_of(home)
    begun, made = list(commits), list(commits)
    waiting: Commit | None = None
    found = []
    disk = recording.disk()
    for call in recording.calls:
        while begun and (begun[0].is_begun_by(call) or disk.node(begun[0].entry) is not None):
            if begun[0].is_begun_by(call):
                found += check_clean_at(disk, home, commits, begun[0])
            begun.pop(0)
        if waiting is not None and _is_next_step(call, waiting):
            found += check_is_synced(disk, commits, waiting)
            waiting = None
        found += _check_call(disk, home, call)
        disk.apply(call)
        if any(commit.is_made_by(call) and commit.rows for commit in made):
            waiting = next(commit for commit in made if commit.is_made_by(call))
    if waiting is not None:
        found += check_is_synced(disk, commits, waiting)
    return found


def _is_next_step(call: Call, commit: Commit) -> bool:
    """Whatever is done for something other than this commit; delta-rs may follow it up by files of its own."""
    if call.op is Op.EVENT:
        return True
    log = commit.entry.parent
    is_follow_up = call.path.startswith(str(commit.entry)) or "checkpoint" in Path(call.path).name
    return call.op in _CHANGES and not (Path(call.path).parent == log and is_follow_up)


def _check_call(disk: Disk, home: Path, call: Call) -> Iterator[str]:
    if call.op in (Op.CREATE, Op.MAKE_FOLDER):
        yield from _at_first_file(disk, home, Path(call.path))
    if call.op is Op.EVENT:
        yield from _at_event(disk, home, call.path)
    elif call.op is Op.RENAME:
        yield from _at_rename(disk, Path(call.path))
    elif call.op is Op.EXCHANGE:
        yield from (*_at_rename(disk, Path(call.path)), *_at_rename(disk, Path(call.other)))
    elif call.op is Op.CREATE and ".receipt.json." in call.path:
        yield from _at_receipt(disk, Path(call.path))
    elif call.op is Op.CREATE and "/.plan-" in call.path:
        yield from (f"the plan is written, and {fault}" for fault in disk.faults(home / "snapshot"))


def _at_first_file(disk: Disk, home: Path, made: Path) -> Iterator[str]:
    """The marker makes the folder ours, before anything else is in it (I11)."""
    if home in made.parents and made.name != LOCK and MARKER not in made.name:
        yield from (f"{made} is made, and {fault}" for fault in disk.faults(home / MARKER))


def _at_event(disk: Disk, home: Path, event: str) -> Iterator[str]:
    for referent in AT_EVENTS[event](home) if event in AT_EVENTS else []:
        if disk.node(referent) is not None:
            yield from (f"at {event}: {fault}" for fault in disk.faults(referent))


def _at_rename(disk: Disk, moved: Path) -> Iterator[str]:
    """What gets its final name is complete; delta-rs does otherwise, and its files are synced afterwards."""
    if not moved.name.endswith("#1"):
        yield from (f"{moved} is renamed, and {fault}" for fault in _faults_inside(disk, moved))


def _at_receipt(disk: Disk, temporary: Path) -> Iterator[str]:
    """It is written beside the files that it tells of, whose bytes are durable by then; names are before the row."""
    attempt = temporary.name.removeprefix(".").partition(".")[0]
    folder = disk.node(temporary.parent)
    assert isinstance(folder, Folder)
    for file in [temporary.with_name(name) for name in folder.now if name.startswith(attempt)]:
        yield from (f"the receipt of {attempt} is written, and {fault}" for fault in _faults_inside(disk, file))


def _faults_inside(disk: Disk, path: Path) -> list[str]:
    """Of the bytes and of the names below, not of the name itself."""
    node = disk.node(path)
    if isinstance(node, File):
        return [] if node.is_clean else [f"{path} has bytes that are not synced"]
    return [fault for fault in disk.faults(path) if not fault.startswith("the name of ") or f"{path}/" in fault]
