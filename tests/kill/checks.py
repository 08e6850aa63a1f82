"""What must hold of a migration after each kill, and once its commands have ended."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from migrate import load_spec, status
from migrate.batch.ledger.standing import Standing
from migrate.model.key_range import KeyRange
from migrate.model.ledger_row import Row, Step
from tests.kill.leftovers import leftovers
from tests.kill.scenarios import FUNCTION_FILE, NAME, PUBLISHED, SPEC_FILE, WORK_DIR, Scenario
from tests.kill.trees import Families, Tree, differences, outside, read_stores, read_tree, timeless, within
from tests.support import read_delta, read_ledger

SWITCHES = ("cutover", "rollback")
Intervals = dict[tuple[str, str, str], list[KeyRange]]


class CheckFailedError(Exception):
    """A migration that did not survive."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a migration that nobody disturbs makes of a kind of source."""

    stores: dict[str, Families]
    """Records by RocksDB directory and column family."""
    dead_letters: list[dict[str, Any]]
    intervals: Intervals


@dataclass(slots=True)
class Checks:
    """The checks of one migration, which remember what they saw."""

    scenario: Scenario
    base: Path
    look_for_leftovers: bool
    expected: Expected | None = None
    """None: this is the undisturbed migration itself."""
    original: Tree = field(init=False)
    """The source before any store is switched."""
    converted: Tree = field(init=False)
    """The source as it was converted: the same, unless the application has gone on since."""
    rows: list[Row] = field(default_factory=list)
    _was_switched: bool = False

    def __post_init__(self) -> None:
        self.original = self.converted = read_tree(self.source)

    @property
    def source(self) -> Path:
        """The application's directory."""
        return self.base / self.scenario.kind.directory

    @property
    def home(self) -> Path:
        """The migration's folder."""
        return self.base / WORK_DIR / NAME

    def after_kill(self, command: str) -> None:
        """Raises CheckFailedError."""
        self._was_switched |= command in SWITCHES
        if command in SWITCHES:
            self._check_whole_old_or_new()
            foreign = self._foreign_neighbours()
            require(not foreign, f"foreign entries: {', '.join(foreign)}")
        else:
            self._check_source(command)
        if command != "abandon":
            self._check_ledger()
            shown = status(load_spec(self.base / SPEC_FILE)).verifying
            require(shown is None or shown.records <= shown.records_expected, f"status shows {shown}")

    def after_end(self, command: str) -> None:
        """Raises CheckFailedError."""
        self._was_switched |= command in SWITCHES
        self._check_source(command)
        if self.scenario.publishes and not (command == "run" and self.scenario.is_held_back):
            self._check_migrated(self.base / self.scenario.published)
        if command == "abandon":
            require(not self.home.exists(), f"{self.home} is still there")
        else:
            self._check_ledger()
        if command not in ("abandon", "snapshot"):
            self._check_finished(command)
        if self.look_for_leftovers:
            left = leftovers(self.home, self.rows, after=command)
            left = [*self._foreign_neighbours(), *(f"{WORK_DIR}/{NAME}/{name}" for name in left)]
            require(not left, f"left behind after {command}:\n  " + "\n  ".join(left))

    @property
    def is_published(self) -> bool:
        """Whether a run has published already."""
        return any(row.step is Step.PUBLISHED for row in self.rows)

    def has_begun(self, command: str) -> bool:
        """Whether a command that was killed is to be ended or taken back: a switch that said so, and any run."""
        return command == "run" or self.rows[-1].step in (Step.CUTTING_OVER, Step.CUT_OVER)

    def let_the_application_go_on(self) -> None:
        """Between two commands; where it does."""
        if self.scenario.kind.goes_on is not None:
            self.scenario.kind.goes_on(self.source)
            self.original = read_tree(self.source)

    def observed(self) -> Expected:
        """What this migration made."""
        root = self.base / self.scenario.published if self.scenario.publishes else self.source
        stores = read_stores(root, self.scenario.kind.made or self.scenario.kind.stores)
        return Expected(stores, dead_letters(self.home), intervals(self.rows))

    def _check_source(self, command: str) -> None:
        """As it must be before, during and after any command that moves no store, and after one that does."""
        if command == "cutover" or (command == "finalize" and not self.scenario.publishes):
            self._check_migrated(self.source)
        elif self._was_switched:  # so that directories have new times
            _same("what was rolled back", timeless(self.original), timeless(read_tree(self.source)))
        else:
            _same("the source", self.original, read_tree(self.source))

    def _check_ledger(self) -> None:
        rows = read_ledger(self.home)
        require(rows[: len(self.rows)] == self.rows, "rows of the ledger were lost, or are others now")
        _check_done_once(intervals(rows), "a finished chunk was redone")
        compared = intervals(Standing(self.home, rows).compared_so_far, Step.COMPARED)
        _check_done_once(compared, "a range was compared again")
        self.rows = rows

    def _check_finished(self, command: str) -> None:
        if self.expected is not None:
            require(intervals(self.rows) == self.expected.intervals, "the ledger names other chunks than those planned")
            if command != "run" or "replay" not in self.scenario.commands:
                require(dead_letters(self.home) == self.expected.dead_letters, "the dead letters differ")

    def _check_migrated(self, root: Path) -> None:
        """The new stores in place of the old ones, with their owner and mode, and all else as it was."""
        kind = self.scenario.kind
        stores = kind.made or kind.stores
        beside = [self.converted, read_tree(root)]
        if kind.made:  # no old task is carried over
            beside = [{name: entry for name, entry in tree.items() if not name.startswith("0_")} for tree in beside]
        rest, found = (timeless(outside(tree, stores)) for tree in beside)
        _same(f"what lies beside the stores in {root.name}", rest, found)
        if self.expected is not None:
            for store, families in read_stores(root, stores).items():
                require(families == self.expected.stores[store], f"the records of {root.name}/{store} differ")

    def _check_whole_old_or_new(self) -> None:
        """Each store partition is the old one or the new one; side files are those of either, never ahead of it."""
        stores = self.scenario.kind.stores
        found, old, new = (timeless(tree) for tree in (read_tree(self.source), self.original, self.converted))
        rest = outside(found, stores)
        either = outside(old, stores) | {name: entry for name, entry in rest.items() if entry == new.get(name)}
        _same("what lies beside the stores", either, rest)
        for store in stores:
            if within(found, store) != within(old, store) and self.expected is not None:
                families = read_stores(self.source, [store])[store]
                require(families == self.expected.stores[store], f"{store} is neither the old nor the new store")
                task = Path(store).parts[0] if store != "." else "."
                _same(f"what lies beside the new {store}", outside(within(new, task), stores), within(rest, task))

    def _foreign_neighbours(self) -> list[str]:
        """What should not lie beside the application's directory, the target or the migration's folder."""
        known = {
            SPEC_FILE,
            FUNCTION_FILE,
            WORK_DIR,
            self.scenario.kind.directory,
            *([PUBLISHED] if self.scenario.publishes else []),
        }
        found = {path.name for path in self.base.iterdir()} - known
        if (self.base / PUBLISHED).is_dir():
            found |= {path.name for path in (self.base / PUBLISHED).iterdir()} - {self.scenario.kind.directory}
        if (self.base / WORK_DIR).is_dir():
            found |= {f"{WORK_DIR}/{path.name}" for path in (self.base / WORK_DIR).iterdir() if path.name != NAME}
        return sorted(found)


def dead_letters(home: Path) -> list[dict[str, Any]]:
    """The rows of the table, but for the names of attempts."""
    folder = home / "dead-letters"
    rows = read_delta(folder) if folder.is_dir() else []
    return sorted(({**row, "attempt": ""} for row in rows), key=lambda row: (row["store_partition"], row["key"]))


def intervals(rows: list[Row], step: Step = Step.CHUNK) -> Intervals:
    """Every interval that was ever committed, in key order, but for those that a revision has made void.

    Of a verification, by column family too.
    """
    found: Intervals = defaultdict(list)
    void = {attempt for revision in Standing(Path(), rows).revisions for attempt in revision.superseded}
    for row in rows:
        if row.step is step and row.facts.get("attempt") not in void:
            place = (str(row.store_partition), str(row.database), str(row.facts.get("family", "")))
            found[place].append(row.keys)
    return {place: sorted(ranges, key=lambda keys: keys.start or b"") for place, ranges in found.items()}


def _check_done_once(found: Intervals, otherwise: str) -> None:
    for place, ranges in found.items():
        for one, other in pairwise(ranges):
            is_disjoint = one.end is not None and one.end <= (other.start or b"")
            require(is_disjoint, f"{otherwise}: {place} {one} and {other}")


def _same(what: str, expected: Tree, found: Tree) -> None:
    require(expected == found, f"{what} changed:\n  " + "\n  ".join(differences(expected, found)))


def require(holds: bool, otherwise: str) -> None:
    """Raises CheckFailedError."""
    if not holds:
        raise CheckFailedError(otherwise)
