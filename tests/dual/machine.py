"""A state machine over a DualReadStore: all that a processor may do, and all that may happen to it, against a dict."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from migrate import ConversionError, RefusedError, StoreClosedError
from migrate.stores.state_store import Records
from tests.dual.crash import copy_as_it_stands
from tests.dual.model import Model, Scan
from tests.dual.pairings import BAD, PAIRINGS, Bad, Ground, Pairing
from tests.support import raises

KEYS = [b"", b"\0", b"a", b"a\0", b"a\0\0", b"a\1", b"ab", b"b", b"Pa", b"\xfe", b"\xff", b"\xff\xff", b"\xff\xffa"]
VALUES = [b"", b"\0", b"one", b"dropped?", b"xtwo", b"three-and-four", b"\xff" * 12, b"long" * 50]
keys = st.sampled_from(KEYS)
seen_keys = keys | keys.map(lambda key: b"P" + key)
values = st.sampled_from(VALUES) | st.binary(max_size=12)
ends = st.none() | seen_keys
WORST = 5


class StoreMachine(RuleBasedStateMachine):
    """One store's life."""

    steps = 0
    """Of all machines."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="stateferry-"))
        self.scans: list[tuple[Records, Scan]] = []
        self.copy: tuple[Path, dict[bytes, bytes | Bad]] | None = None
        """Of the old directory, and what the store showed then."""

    @initialize(
        pairing=st.sampled_from(PAIRINGS),
        two=st.booleans(),
        old=st.dictionaries(keys, values, max_size=len(KEYS)),
        is_flushed=st.booleans(),
        options=st.fixed_dictionaries(
            {"migrate_on_read": st.booleans(), "sync": st.sampled_from([False, False, False, True])},
            optional={"on_reject": st.sampled_from(["raise", "quarantine"])},
        ),
    )
    def begin(
        self, pairing: Pairing, two: bool, old: dict[bytes, bytes], is_flushed: bool, options: dict[str, Any]
    ) -> None:
        self.ground = Ground(self.base, pairing, two)
        if old and all(pairing.see(*record)[1] is BAD for record in old.items()):
            old[b"fine"] = b"can be converted"  # a store of which nothing can be is refused
        self.options = options
        self.ground.make(old, flush=is_flushed)
        self.model = Model(pairing.seen(old))
        self.store = self.ground.open(**options)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self._check_all()
            self._end_of_session(self.store.close)
            self._check_plain_open()
        shutil.rmtree(self.base)
        if self.copy is not None:
            shutil.rmtree(self.copy[0])

    def _count(self) -> None:
        StoreMachine.steps += 1

    @rule(key=seen_keys)
    def get(self, key: bytes) -> None:
        self._count()
        self._expect_value(key, lambda: self.store.get(key))

    @rule(wanted=st.lists(seen_keys, max_size=6))
    def multi_get(self, wanted: list[bytes]) -> None:
        self._count()
        bad = [key for key in wanted if self.model.seen.get(key) is BAD]
        if bad:
            raises(ConversionError, "", self.store.multi_get, wanted)
        else:
            assert self.store.multi_get(wanted) == [self.model.seen.get(key) for key in wanted]

    @rule(key=seen_keys, value=values)
    def put(self, key: bytes, value: bytes) -> None:
        self._count()
        self.store.put(key, value)
        self.model.change([(key, value)])

    @rule(key=seen_keys, by_none=st.booleans())
    def delete(self, key: bytes, by_none: bool) -> None:
        self._count()
        if by_none:
            self.store.put(key, None)
        else:
            self.store.delete(key)
        self.model.change([(key, None)])

    @rule(changes=st.lists(st.tuples(seen_keys, st.none() | values), max_size=6))
    def put_all(self, changes: list[tuple[bytes, bytes | None]]) -> None:
        self._count()
        self.store.put_all(changes)
        self.model.change(changes)

    @rule(key=seen_keys, value=values)
    def put_if_absent(self, key: bytes, value: bytes) -> None:
        self._count()
        self._expect_value(key, lambda: self.store.put_if_absent(key, value))
        if key not in self.model.seen:
            self.model.change([(key, value)])

    @rule(start=ends, end=ends, reverse=st.booleans())
    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> None:
        self._count()
        self._finish(self.store.range(start, end, reverse=reverse), self.model.scan(start, end, reverse=reverse))

    @rule(prefix=st.sampled_from([b"", b"a", b"a\0", b"P", b"\xff", b"\xff\xff"]), reverse=st.booleans())
    def prefix_scan(self, prefix: bytes, reverse: bool) -> None:
        self._count()
        expected = self.model.scan(None, None, reverse=reverse, prefix=prefix)
        self._finish(self.store.prefix_scan(prefix, reverse=reverse), expected)

    @precondition(lambda self: len(self.scans) < WORST)
    @rule(reverse=st.booleans())
    def hold(self, reverse: bool) -> None:
        """Begin a scan that goes on across other steps."""
        self._count()
        records = self.store.reverse_all() if reverse else self.store.all()
        self.scans.append((records, self.model.scan(None, None, reverse=reverse)))

    @precondition(lambda self: bool(self.scans))
    @rule(which=st.integers(0, WORST - 1), count=st.integers(1, 4))
    def go_on(self, which: int, count: int) -> None:
        self._count()
        records, expected = self.scans[which % len(self.scans)]
        for _ in range(count):
            if not expected.take_one(records):
                self.scans.remove((records, expected))
                break

    @precondition(lambda self: bool(self.scans))
    @rule(which=st.integers(0, WORST - 1))
    def finish(self, which: int) -> None:
        self._count()
        self._finish(*self.scans.pop(which % len(self.scans)))

    @rule(max_records=st.none() | st.integers(1, 5))
    def converge(self, max_records: int | None) -> None:
        self._count()
        first_bad = self.model.first_bad
        if first_bad is None or self.options.get("on_reject") == "quarantine":
            self.store.converge(max_records, None)
            if max_records is None:
                self._check_converged()
            return
        try:
            self.store.converge(max_records, None)
        except ConversionError as error:
            assert error.key == first_bad
        else:
            assert max_records is not None

    @rule()
    def flush(self) -> None:
        self._count()
        self.store.flush()

    @rule(
        is_crash=st.booleans(),
        copies=st.booleans(),
        puts_back=st.booleans(),
        by_old_code=st.dictionaries(keys, values, max_size=2),
        wins=st.sampled_from(["old-wins", "new-wins"]),
    )
    def reopen(self, is_crash: bool, copies: bool, puts_back: bool, by_old_code: dict[bytes, bytes], wins: str) -> None:
        """Closed or crashed; maybe the old directory is put back from an earlier copy, and the old code writes."""
        self._count()
        self._stop(is_crash=is_crash)
        if copies:
            self._copy_old()
        elif puts_back:
            self._put_back()
        by_old_code = {key: value for key, value in by_old_code.items() if self._is_visible(key, value)}
        is_suspect = bool(by_old_code) or (self.ground.two and puts_back and not copies and self.copy is not None)
        if not is_suspect:
            self.store = self.ground.open(**self.options)
            return
        if by_old_code:
            self.ground.write_old(by_old_code)
        self._open_told(wins)

    @rule()
    def look(self) -> None:
        self._count()
        self._check_all()

    def _stop(self, *, is_crash: bool) -> None:
        if is_crash:
            copy_as_it_stands(self.base, copy := self.base.with_name(self.base.name + ".copy"))
            self._end_of_session(self.store.close)
            shutil.rmtree(self.base)
            copy.rename(self.base)
        else:
            self._end_of_session(self.store.close)

    def _copy_old(self) -> None:
        """Of the whole store, where it is one database."""
        self.copy = self.base.with_name(self.base.name + ".old"), dict(self.model.seen)
        shutil.rmtree(self.copy[0], ignore_errors=True)
        shutil.copytree(self.ground.old, self.copy[0])

    def _put_back(self) -> None:
        if self.copy is None:
            return
        shutil.rmtree(self.ground.old)
        shutil.copytree(self.copy[0], self.ground.old)
        if not self.ground.two:
            self.model.seen = dict(self.copy[1])

    def _is_visible(self, key: bytes, value: bytes) -> bool:
        """The old code's record will be seen: not one that is dropped, or that cannot be converted."""
        return isinstance(self.ground.pairing.see(key, value)[1], bytes)

    def _open_told(self, wins: str) -> None:
        """As the two stores say by themselves; asked, unless either answer shows the same."""
        old, new = self.ground.raw_old(), self.ground.raw_new()
        seen = self.ground.pairing.seen(old)
        shows = {"old-wins": new | seen, "new-wins": seen | new}
        self.model.seen = shows[wins]
        try:
            self.store = self.ground.open(**self.options)
        except RefusedError:
            self.store = self.ground.open(**self.options, on_foreign_writes=wins)
            return
        assert shows["old-wins"] == shows["new-wins"]

    def _expect_value(self, key: bytes, call: Callable[[], bytes | None]) -> None:
        expected = self.model.seen.get(key)
        if expected is BAD:
            caught = raises(ConversionError, "", call)
            assert caught.key == key
        else:
            assert call() == expected

    def _finish(self, records: Records, expected: Scan) -> None:
        while expected.take_one(records):
            pass

    def _check_all(self) -> None:
        self._finish(self.store.all(), self.model.scan(None, None))

    def _check_converged(self) -> None:
        bad = self.model.bad
        assert self.store.is_converged == (not bad)
        assert [key for key, _ in self.store.rejects()] == bad
        assert self.store.progress.rejected == len(bad)
        assert (self.store.progress.old_keys_left == 0) == (not bad)

    def _end_of_session(self, end: Callable[[], None]) -> None:
        end()
        for records, _ in self.scans:
            raises(StoreClosedError, "", next, records)
        self.scans.clear()

    def _check_plain_open(self) -> None:
        """The new format's owner finds all, once it is converged; and no file of ours."""
        if self.model.bad:
            return
        with self.ground.open(**self.options) as store:
            store.converge(None, None)
            assert store.is_converged
        with self.ground.open_plain() as plain:
            assert list(plain.all()) == sorted(self.model.seen.items())
        names = {path.name for path in self.base.rglob("*")}
        assert not names & {"stateferry.json", "rocksdict-config.json"}
