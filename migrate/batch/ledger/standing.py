"""Where a migration stands, by its plan and ledger: the one answer that every verb uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from migrate.batch.home import LEDGER, SNAPSHOT, check_ours, is_abandoned, load_plan
from migrate.batch.ledger.changelog_standing import ChangelogStanding
from migrate.batch.ledger.delta_log import LedgerLog
from migrate.batch.ledger.receipts_in_force import (
    FIRST,
    Revision,
    assembled_by,
    has_files,
    in_force,
    pending_chunks,
    revised,
    totals_of,
)
from migrate.model.changelogs import Tail, Times, rebuilt_in, recorded_times, tails_in_order, with_tails
from migrate.model.comparison import Totals, Verification
from migrate.model.journal import STATES, Journal
from migrate.model.ledger_row import Row, Step, check_migration, read_detail
from migrate.model.plan import Chunk, Plan, newest_plan
from migrate.model.receipt import Receipt
from migrate.model.reports import State
from migrate.model.store_partition import StoreState
from migrate.stores.rocksdb.table_digests import Tables

_COMPARED = (Step.VERIFIED, Step.MISMATCH)
_SWITCHED_TO_NEW = (Step.CUT_OVER, Step.FINALIZING, Step.FINALIZED)
_STRENGTH = {"digest": 1, "full": 2}


@dataclass(frozen=True)
class Standing:
    """The state of a migration at one time. Each part is computed on first use."""

    home: Path
    rows: Sequence[Row]
    """The ledger's rows, in the order of commits."""
    known_plan: Plan | None = None
    """The newest plan revision, if the caller has read it."""
    _found: dict[str, bool] = field(default_factory=dict, repr=False)
    """By attempt, whether its files were there when they were looked for."""

    def with_rows(self, rows: Sequence[Row]) -> Standing:
        """The standing by these rows of the same ledger; what was found in the migration's folder is kept."""
        return replace(self, rows=rows, known_plan=self.__dict__.get("_stored_plan", self.known_plan))

    def extended(self, rows: Iterable[Row]) -> Standing:
        return self.with_rows((*self.rows, *rows))

    def with_plan(self, plan: Plan) -> Standing:
        return replace(self, known_plan=plan)

    def looked_at_again(self) -> Standing:
        """The standing by the files that are there now."""
        return replace(self, _found={})

    @cached_property
    def _stored_plan(self) -> Plan | None:
        is_known = self.known_plan is not None or is_abandoned(self.home)
        return self.known_plan if is_known else load_plan(self.home)

    @cached_property
    def plan(self) -> Plan | None:
        """The newest plan revision, with tails; None: not started, or abandoned. Raises RefusedError if unreadable."""
        plan = self._stored_plan
        return None if plan is None else with_tails(plan, self.tails)

    @property
    def migration_id(self) -> str:
        """The id of a migration that has rows in its ledger; another one may have started a run here, and no more."""
        done = (row for row in reversed(self.rows) if row.step is not Step.RUN)
        return next(done, self.rows[-1]).migration_id

    @cached_property
    def changelogs(self) -> ChangelogStanding:
        return ChangelogStanding(self.rows)

    @cached_property
    def times(self) -> dict[str, Times]:
        """By store partition, the times that the old changelog has; empty: they are not needed."""
        return recorded_times(self.rows)

    @cached_property
    def tails(self) -> dict[str, list[Tail]]:
        """The tails of each store partition, in their order. Raises RefusedError for those of a newer release."""
        return tails_in_order(read_detail(row, Tail, "a tail") for row in self.rows if row.step is Step.TAIL)

    @property
    def every_tail(self) -> list[Tail]:
        """The tails of all store partitions, and what was made of changelogs whose store partition no host has."""
        rebuilt = (each.tail for each in rebuilt_in(self.rows).values())
        return [*(tail for tails in self.tails.values() for tail in tails), *rebuilt]

    @cached_property
    def recorded(self) -> list[Receipt]:
        """All committed receipts, in the order of commits. Raises RefusedError for those of a newer release."""
        return [row.receipt for row in self.rows if row.step is Step.CHUNK]

    @cached_property
    def committed_ms(self) -> dict[str, int]:
        """The time of each chunk's commit, by the attempt in its receipt."""
        return {row.receipt.attempt: row.committed_at_ms for row in self.rows if row.step is Step.CHUNK}

    @cached_property
    def receipts(self) -> list[Receipt]:
        """The receipts in force. Until the new stores are in use, a missing file makes its chunk undone (I1)."""
        if self.is_in_use:
            return in_force(self._valid)
        return in_force([receipt for receipt in self._valid if self._is_there(receipt)])

    def _is_there(self, receipt: Receipt) -> bool:
        found = self._found.get(receipt.attempt)
        if found is None:
            found = self._found[receipt.attempt] = has_files(receipt, self.home)
        return found

    @property
    def without_files(self) -> list[Receipt]:
        """The receipts that would be in force, if their files were not gone."""
        present = {receipt.attempt for receipt in self.receipts}
        return [receipt for receipt in in_force(self._valid) if receipt.attempt not in present]

    @cached_property
    def _valid(self) -> list[Receipt]:
        void = {attempt for revision in self.revisions for attempt in revision.superseded}
        known = {FIRST, *(revision.id for revision in self.revisions)}  # the row of a revision may be lost
        is_sorted = self._stored_plan is not None and self._stored_plan.is_sorted  # other ranges are not of its keys
        every = (each for each in self.recorded if each.is_sorted == is_sorted)
        return [each for each in every if each.revision in known and each.attempt not in void]

    @cached_property
    def revisions(self) -> list[Revision]:
        """The revisions of the conversion, in order. Raises RefusedError for those of a newer release."""
        return [read_detail(row, Revision, "a revision") for row in self.rows if row.step is Step.REVISED]

    @property
    def revision(self) -> Revision | None:
        """The revision that holds; None: the function is the one that the migration was started with."""
        return self.revisions[-1] if self.revisions else None

    @property
    def revision_id(self) -> str:
        return FIRST if self.revision is None else self.revision.id

    @property
    def is_of_several_revisions(self) -> bool:
        """Whether chunks count that an earlier revision has rewritten."""
        return not {each.revision for each in self.receipts} <= {FIRST, self.revision_id}

    def as_revised(self, revision: Revision) -> Standing:
        return self.extended([Row(migration_id="", run_id="", step=Step.REVISED, detail=revision.model_dump_json())])

    @cached_property
    def identity(self) -> dict[str, str]:
        """The identity that holds: the plan's, with the function of the newest revision. Empty without a plan."""
        return {} if self.plan is None else revised(self.plan.identity, self.revision)

    @cached_property
    def pending(self) -> list[Chunk]:
        """The chunks, or parts of chunks, that are not rewritten yet."""
        return [] if self.plan is None else pending_chunks(self.plan, self.receipts)

    @property
    def every_receipt(self) -> list[Receipt | Tail]:
        return [*self.receipts, *self.every_tail]

    @cached_property
    def totals(self) -> Totals:
        return totals_of(self.receipts, self.every_tail)

    @property
    def is_in_use(self) -> bool:
        """Whether the new stores were published, or cut over and not rolled back."""
        last = self._last(Step.PUBLISHED, *_SWITCHED_TO_NEW, Step.ROLLED_BACK)
        return last is not None and last.step is not Step.ROLLED_BACK

    def _last(self, *steps: Step) -> Row | None:
        return next((row for row in reversed(self.rows) if row.step in steps), None)

    @cached_property
    def runs(self) -> list[str]:
        """The ids of the runs of `run`, in their order: other commands open the ledger too."""
        others = {row.run_id for row in self.rows if row.step in STATES}
        others |= {row.run_id for row in self.rows if row.step is Step.RUN and "command" in row.facts}
        return [run_id for run_id in dict.fromkeys(row.run_id for row in self.rows) if run_id not in others]

    @property
    def last_commit_ms(self) -> int | None:
        return max((row.committed_at_ms for row in self.rows), default=None)

    @cached_property
    def states(self) -> dict[Path, StoreState]:
        """The state of every new store partition after its assembly, by folder."""
        made = (row.facts for row in self.rows if row.step is Step.ASSEMBLED)
        return {self.home / facts["folder"]: StoreState.model_validate(facts["state"]) for facts in made}

    @cached_property
    def newest(self) -> dict[str, Path]:
        """By id, the last folder of each new store partition, by the conversion that holds and with all tails."""
        return {partition: self.home / facts["folder"] for partition, facts in self._newest.items()}

    @cached_property
    def overlays(self) -> dict[str, Path]:
        """The folder with the union of the tails of each store partition that has any, as it was assembled last."""
        return {each: self.home / facts["overlay"] for each, facts in self._newest.items() if facts.get("overlay")}

    @cached_property
    def _newest(self) -> dict[str, dict[str, Any]]:
        made = assembled_by(self.revision_id, self.rows)
        last = {each: tails[-1].number for each, tails in self.tails.items()}
        return {each: found for each, found in made if found.get("tail", 0) == last.get(each, 0)}

    @cached_property
    def assembled(self) -> dict[str, Path]:
        """The folders among `newest` that exist."""
        return {partition: folder for partition, folder in self.newest.items() if folder.is_dir()}

    @property
    def is_assembled(self) -> bool:
        """Whether every chunk is rewritten and every new store partition exists, with its offset where it has one."""
        planned = () if self.plan is None else self.plan.store_partitions
        is_there = self.assembled.keys() == {partition.id for partition in planned}
        return is_there and not self.pending and not self.behind_changelogs

    @cached_property
    def behind_changelogs(self) -> set[str]:
        """The new store partitions with an offset inside that is not the one of the last record written for them."""
        last = self.changelogs.last_offsets
        return {each for each, facts in self._newest.items() if "last" in facts and facts["last"] != last.get(each)}

    @cached_property
    def compared_so_far(self) -> list[Row]:
        """The ranges that a verification which has not ended has found equal.

        Void once a store partition is assembled again, or any other step follows: it ends or moves the stores.
        """
        found: list[Row] = []
        for row in self.rows:
            if row.step is Step.COMPARED:
                found.append(row)
            elif row.step is Step.ASSEMBLED:
                found = [each for each in found if each.store_partition not in (row.store_partition, None)]
            elif row.step not in (Step.RUN, Step.CHUNK):
                found = []
        return found

    @cached_property
    def refuted(self) -> set[Path]:
        """The new stores in which a comparison found a mismatch."""
        return {folder for row in self.rows if row.step is Step.MISMATCH for folder in self._compared(row)}

    @property
    def is_verified(self) -> bool:
        """Whether the last comparison was of the newest stores, and found no mismatch.

        After a revision one of them must have been in full: only that shows that the chunks which it did not rewrite
        are as its function would make them.
        """
        last = self._last(*_COMPARED, Step.ASSEMBLED)  # one may be assembled again since, in the same folder
        newest, has_all_tails = {*self.newest.values()}, self.tails.keys() <= self.newest.keys()
        if not has_all_tails or last is None or last.step is not Step.VERIFIED or not newest <= self._compared(last):
            return False
        found = (row for row in self.rows if row.step is Step.VERIFIED and newest <= self._compared(row))
        return self.revision is None or (bool(newest) and any(row.verification.mode == "full" for row in found))

    @property
    def awaits_comparison(self) -> bool:
        """Whether a store partition was assembled after the last comparison; False without one."""
        last = self._last(*_COMPARED, Step.ASSEMBLED)
        return self.verification is not None and last is not None and last.step is Step.ASSEMBLED

    @property
    def tables(self) -> Tables | None:
        """The digests of the tables of the new stores that a comparison has found right; None: none were recorded."""
        newest = {*self.newest.values()}
        right = (row for row in reversed(self.rows) if row.step is Step.VERIFIED and newest <= self._compared(row))
        row = next(right, None)
        return None if row is None else row.facts.get("tables")

    @property
    def verification(self) -> Verification | None:
        last = self._last(*_COMPARED)
        return None if last is None else last.verification

    @cached_property
    def mismatch(self) -> Row | None:
        """The strongest comparison with a mismatch that is not resolved.

        A comparison as strong that succeeds, of stores that were all assembled since, resolves it.
        """
        found = [number for number, row in enumerate(self.rows) if row.step is Step.MISMATCH]
        open_ones = [self.rows[number] for number in found if not self._is_resolved(*self.rows[number:])]
        return max(open_ones, key=lambda row: (_strength(row), row.sequence), default=None)

    def _is_resolved(self, mismatch: Row, *later: Row) -> bool:
        assembled_since: set[Path] = set()
        for row in later:
            if row.step is Step.ASSEMBLED:
                assembled_since.add(self.home / row.facts["folder"])
            is_as_strong = row.step is Step.VERIFIED and _strength(row) >= _strength(mismatch)
            if is_as_strong and self._compared(row) <= assembled_since:
                return True
        return False

    def _compared(self, row: Row) -> set[Path]:
        return {self.home / folder for folder in row.facts["folders"]}

    @property
    def published(self) -> Path | None:
        last = self._last(Step.PUBLISHED)
        return None if last is None else Path(last.facts["path"])

    @property
    def publications(self) -> list[dict[str, Any]]:
        """The intent of each publication: `path`, `stores` and `accepted`."""
        return [row.facts for row in self.rows if row.step is Step.PUBLISHING]

    @property
    def is_live(self) -> bool:
        """Whether the new stores are in use, or may be: a switch or a publication was begun and not taken back."""
        return self.published is not None or self.step not in (None, Step.ROLLED_BACK)

    @cached_property
    def switch(self) -> tuple[Step | None, Journal]:
        """The last step of the last switch, and its journal; None: there was no switch.

        Raises RefusedError for a newer journal.
        """
        last = self._last(*STATES)
        if last is None:
            return None, Journal()
        return last.step, read_detail(last, Journal, "the journal of the switch")

    @property
    def step(self) -> Step | None:
        return self.switch[0]

    @property
    def journal(self) -> Journal:
        return self.switch[1]

    def new_stores(self, application: Path) -> dict[str, Path]:
        """The new store partitions, by id: in the directory in use, or else where they were assembled."""
        root = self.published or (application if self.step in _SWITCHED_TO_NEW else None)
        partitions = () if self.plan is None else self.plan.store_partitions
        if root is None or self.plan is None:
            return {each.id: self.assembled[each.id] for each in partitions if each.id in self.assembled}
        return {each.id: root / self.plan.new_partition(each).path for each in partitions}

    @cached_property
    def state(self) -> State:
        if self.plan is None:
            has_snapshot = not is_abandoned(self.home) and (self.home / SNAPSHOT).is_dir()
            return "snapshot taken" if has_snapshot else "not started"
        if self.step is not None and not self._was_compared_since_rollback:
            return STATES[self.step]
        if self.published is not None:
            return "published"
        if self.mismatch is not None:
            return "mismatch"
        if self.is_verified and not self.pending and not self.behind_changelogs:  # files of chunks may be gone since
            return "verified"
        return "assembled" if self.is_assembled else "rewriting"

    @property
    def _was_compared_since_rollback(self) -> bool:
        """Whether a run has continued the migration after a rollback."""
        last = self._last(Step.ROLLED_BACK, *_COMPARED)
        return self.step is Step.ROLLED_BACK and last is not None and last.step is not Step.ROLLED_BACK


class StandingReader:
    """Reads the standing of one migration repeatedly, only what is new each time. Nothing is locked or written."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._log = LedgerLog(home)
        self._plan: Plan | None = None
        self._plan_stamp: tuple[str, int, int] | None = None

    def read(self) -> Standing:
        """The present standing. Raises RefusedError for a plan or a ledger that this version cannot read."""
        standing = self.read_plan()
        if standing.known_plan is None:
            return standing
        rows = self._log.rows()
        check_migration(rows, standing.known_plan.migration_id, self._home / LEDGER)
        return standing.with_rows(rows)

    def read_plan(self) -> Standing:
        """The standing by the plan alone, without a ledger."""
        return Standing(self._home, (), self._newest_plan())

    def _newest_plan(self) -> Plan | None:
        """The newest plan revision, read again only if its file is another one, as after `abandon` and a new start."""
        file = None if is_abandoned(self._home) else newest_plan(self._home)
        if file is None:
            return None
        stamp = (file.name, file.stat().st_ino, file.stat().st_mtime_ns)
        if stamp != self._plan_stamp:
            self._plan, self._plan_stamp = load_plan(self._home), stamp
        return self._plan


def read_standing(home: Path) -> Standing:
    """The present standing of a migration. Raises as `StandingReader.read`, and for a folder that is not ours."""
    check_ours(home)
    return StandingReader(home).read()


def _strength(row: Row) -> int:
    return _STRENGTH[row.verification.mode]
