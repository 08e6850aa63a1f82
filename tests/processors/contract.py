"""The contract of dual reading, for any host: random histories against a model. A host says how it does each step.

Values are numbers. The old form of `n` becomes the new form of `n + SHIFT`; 0 is dropped, and a negative one cannot be
converted. So a value that was converted twice, or not at all, is seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from hypothesis import strategies as st

from migrate import ConversionError, Progress
from tests.support import raises

SHIFT = 1000
BAD = -1
DROPPED = 0
KEYS = ("a", "a|", "ab", 'b"|"c', "é", "z")
OnReject = Literal["raise", "quarantine"]


def convert(old: int) -> int | None:
    """The conversion that every host gives to its adapter, between its own two forms of a number."""
    if old < 0:
        raise ValueError("negative")
    return old + SHIFT if old else None


class Host(ABC):
    """One store with both forms. It is made with the old form alone, as the old code committed it."""

    loses_uncommitted = True
    """Whether a crash takes back what was not committed."""
    lets_old_code_run = True
    """Whether the old code may have run since the new one did."""

    @abstractmethod
    def __init__(self, folder: Path, old: Mapping[str, int], *, on_reject: OnReject, may_drop: bool) -> None: ...
    @abstractmethod
    def get(self, key: str) -> int | None: ...
    @abstractmethod
    def exists(self, key: str) -> bool: ...
    @abstractmethod
    def set(self, key: str, value: int) -> None: ...
    @abstractmethod
    def delete(self, key: str) -> None: ...

    @abstractmethod
    def converge(self) -> None:
        """One slice of it, or for hosts that move a key at a time each key."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def crash(self) -> None:
        """The process dies; another one opens what is left."""

    @abstractmethod
    def reopen(self) -> None:
        """A regular stop, which commits, and a start."""

    @abstractmethod
    def run_old_code(self, key: str, value: int) -> None:
        """Stop; the old code sets a value and commits; start."""

    @abstractmethod
    def copies(self) -> tuple[dict[str, int], dict[str, int]]:
        """The old and the new values, as plain old and plain new code would read them, of what is committed."""

    @property
    @abstractmethod
    def progress(self) -> Progress: ...
    @property
    @abstractmethod
    def is_converged(self) -> bool | None:
        """None: the host cannot tell."""

    @abstractmethod
    def rejects(self) -> int: ...
    @abstractmethod
    def close(self) -> None: ...


keys = st.sampled_from(KEYS)
old_values = st.integers(BAD, 5)
steps = st.one_of(
    st.tuples(st.sampled_from(["get", "exists", "delete"]), keys),
    st.tuples(st.sampled_from(["set", "set", "old code"]), keys, st.integers(1, 5)),
    st.tuples(st.sampled_from(["converge", "commit", "commit", "crash", "reopen"])),
)
histories = st.lists(steps, max_size=30)
olds = st.dictionaries(keys, old_values, max_size=len(KEYS))


class History:
    """One host, and what it has to show."""

    def __init__(self, host: Host, old: Mapping[str, int], *, on_reject: OnReject, may_drop: bool) -> None:
        self.host = host
        self._on_reject = on_reject
        self._may_drop = may_drop
        self._old = dict(old)
        self._new: dict[str, int] = {}
        """What only the new form has: the rest shows through from the old one."""
        self._committed = (dict(self._old), dict(self._new))

    def run(self, history: list[tuple[str, ...]]) -> None:
        for name, *arguments in history:
            getattr(self, f"_{name.replace(' ', '_')}")(*arguments)
        self._converge_all()

    def _cannot_convert(self, key: str) -> bool:
        return self._old[key] < 0 or (self._old[key] == DROPPED and not self._may_drop)

    def _is_bad(self, key: str) -> bool:
        return key not in self._new and key in self._old and self._cannot_convert(key)

    def _seen(self, key: str) -> int | None:
        return self._new[key] if key in self._new else convert(self._old[key]) if key in self._old else None

    def _get(self, key: str) -> None:
        if self._is_bad(key):
            error = raises(ConversionError, "cannot be converted", self.host.get, key)
            assert key.encode() in error.key
        else:
            assert self.host.get(key) == self._seen(key)

    def _exists(self, key: str) -> None:
        if self._is_bad(key):
            if not self._may_drop:  # else the conversion has to say
                assert self.host.exists(key)
        else:
            assert self.host.exists(key) == (self._seen(key) is not None)

    def _set(self, key: str, value: int) -> None:
        self.host.set(key, value)
        self._new[key] = value
        self._old.pop(key, None)

    def _delete(self, key: str) -> None:
        self.host.delete(key)
        self._new.pop(key, None)
        self._old.pop(key, None)

    def _converge(self) -> None:
        try:
            self.host.converge()
        except ConversionError as error:
            assert self._on_reject == "raise"
            assert any(key.encode() in error.key for key in KEYS if self._is_bad(key))

    def _commit(self) -> None:
        self.host.commit()
        self._committed = (dict(self._old), dict(self._new))
        self._check_copies()

    def _crash(self) -> None:
        self.host.crash()
        if self.host.loses_uncommitted:
            self._old, self._new = (dict(each) for each in self._committed)
        self._check_all()

    def _reopen(self) -> None:
        self.host.reopen()
        self._committed = (dict(self._old), dict(self._new))
        self._check_all()

    def _old_code(self, key: str, value: int) -> None:
        if not self.host.lets_old_code_run:
            return
        self._commit()
        moved = self.host.copies()[1]  # of which the host knows more than this model: these win
        self._new = moved | self._new
        self._old = {old: number for old, number in self._old.items() if old not in moved}
        self.host.run_old_code(key, value)
        self._old[key] = value
        self._committed = (dict(self._old), dict(self._new))
        self._check_all()

    def _check_all(self) -> None:
        for key in KEYS:
            self._get(key)

    def _check_copies(self) -> None:
        """No key is lost, none is in neither form, and none came back."""
        old, new = self.host.copies()
        for key in KEYS:
            shown = new[key] if key in new else old.get(key)
            expected = self._new.get(key, self._old.get(key))
            converted = {expected, None if expected is None or self._is_bad(key) else self._seen(key)}
            assert shown in converted, (key, shown, expected)

    def _converge_all(self) -> None:
        """The end: plain new code finds everything, and nothing else."""
        bad = [key for key in KEYS if self._is_bad(key)]
        for _ in range(4):  # a whole pass after the last change has been committed, and one more
            self._converge()
            self._commit()
        old, new = self.host.copies()
        if bad and self._on_reject == "raise":
            assert set(bad) <= old.keys()
            assert not self.host.is_converged
            return
        assert {key: old.get(key) for key in KEYS if key in old} == {key: self._old[key] for key in bad}
        assert new == {key: seen for key in KEYS if key not in bad and (seen := self._seen(key)) is not None}
        assert self.host.rejects() == self.host.progress.rejected == len(bad)
        if self.host.is_converged is not None:
            assert self.host.is_converged == (not bad)
