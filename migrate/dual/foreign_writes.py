"""Writes to the old store that are not the adapter's: by the old code, or by replacing the store with a copy.

A key may then be in both stores, and it is not known which record is newer: the caller decides which store wins.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from migrate.dual.conversion import LazyConversion
from migrate.dual.places import Places
from migrate.dual.store_pair import StorePair
from migrate.dual.sweep import present_keys
from migrate.errors import RefusedError
from migrate.stores.cursor_file import NO_TOKEN, AdapterCursor, is_announced, read_cursor
from migrate.stores.rocksdb.live import LiveDatabase

_LOG = logging.getLogger(__name__)
REFUSE, OLD_WINS, NEW_WINS = ON_FOREIGN_WRITES = ("refuse", "old-wins", "new-wins")
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class Cursors:
    """The adapter cursors in the two directories; in one database both are the same."""

    old: AdapterCursor | None
    new: AdapterCursor | None
    new_is_announced: bool

    @property
    def new_token(self) -> str | None:
        """The token in the new store's directory; None: there is no cursor, or a damaged one."""
        if self.new_is_announced:
            return NO_TOKEN
        return None if self.new is None else self.new.token

    def in_force(self, old_database: LiveDatabase) -> AdapterCursor | None:
        """The cursor that both directories hold, unless another process has opened the old store since."""
        is_in_both = self.old is not None and self.old.token == self.new_token != NO_TOKEN
        return self.old if self.old is not None and is_in_both and self.old.is_in_force(old_database) else None

    @property
    def belong_together(self) -> bool:
        """Whether one adapter wrote both; a crash may have come between the two writes."""
        if self.old is None or self.new_token is None:
            return False
        is_same = self.new is not None and (self.old.token, self.old.manifest) == (self.new.token, self.new.manifest)
        return is_same or self.old.previous_token == self.new_token


def read_cursors(places: Places) -> Cursors:
    """The cursors of both directories, valid only while the old store is locked."""
    return Cursors(read_cursor(places.old_directory), read_cursor(places.directory), is_announced(places.directory))


def settle_foreign_writes(cursors: Cursors, pair: StorePair, conversion: LazyConversion, policy: str) -> bool:
    """Whether there were foreign writes. Raises RefusedError where the caller has to decide which store wins."""
    old, new = pair.old_database.directory, pair.new_database.directory
    what = _foreign_writes(cursors, pair)
    if what is None:
        return False
    if policy == REFUSE:
        raise RefusedError(
            f"{old} {what}: for a key that is also in the new store {new}, it is not known which record is newer",
            hint=f'decide which store wins, for this opening: on_foreign_writes="{OLD_WINS}" or "{NEW_WINS}"; '
            "or, where the old store is a copy from before the adapter, name another directory for the new store",
        )
    _LOG.warning("%s %s: %s", old, what, policy)
    if policy == OLD_WINS:
        _let_old_win(pair, conversion)
    return True


def _foreign_writes(cursors: Cursors, pair: StorePair) -> str | None:
    """Why the old store may have foreign writes; None: the adapter left it so, or no key can be in both."""
    if (cursors.new_is_announced and cursors.old is None) or _has_never_written(pair):
        return None
    if cursors.belong_together:
        assert cursors.old is not None
        if cursors.old.is_untouched(pair.old_database) or pair.old.first() is None:
            return None
        return "was written to by another program after the adapter closed it"
    if cursors.new is None and pair.old.first() is None:
        return None  # it has converged
    return "is not as an adapter left it (stateferry.json is missing, damaged, or not the one of the new store)"


def _has_never_written(pair: StorePair) -> bool:
    """Whether nothing has ever been moved to the new store, or deleted through it."""
    if pair.new_database is pair.old_database:
        return pair.new.is_blank
    return pair.new_database.sequence_number == 0


def _let_old_win(pair: StorePair, conversion: LazyConversion) -> None:
    """Delete every key of the old store from the new one, durably, so that the old record is read from then on."""
    deleted = 0
    scan = pair.old.scan()
    try:
        while (old := scan.columns(_BATCH)) is not None:
            keys = conversion.many(old).keys if conversion.changes_keys else old.keys
            conversion.check_order(keys)
            present = present_keys(pair.new, keys) if keys else set()
            batch = pair.new_database.new_batch()
            for key in present:
                batch.delete(key, pair.new.handle)
            pair.new_database.write_logged(batch)
            deleted += len(present)
    finally:
        scan.close()
    pair.flush()
    _LOG.warning("%s: %d records were replaced by those of the old store", pair.new.where, deleted)
