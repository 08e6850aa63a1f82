"""A second engine, before the portable one: it does what that one does, and what a test says besides."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from migrate.engine import engines
from migrate.engine.engine import Digest, FamilyWork, Hooks, NewFamily, Passed
from migrate.engine.portable import Portable
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.writing import TableOptions

REPOSITORY = Path(__file__).parents[2]
LEFT = "left"
"""The column family that it declines."""


class SecondEngine(Portable):
    """`at_work` is called with "rewrite", "compare" or "digest"; `unprepared` is why it fails to prepare."""

    name = "second"

    def __init__(
        self, at_work: Callable[[str], None] = lambda _: None, missing: str = "", unprepared: str = ""
    ) -> None:
        self._at_work, self._missing, self._unprepared = at_work, missing, unprepared

    def unavailable(self) -> str:
        return self._missing

    def prepare(self) -> None:
        self._missing = self._missing or self._unprepared

    def declines(self, work: FamilyWork, hooks: Hooks) -> str:
        if work.conversion.function is not None:
            return "the conversion has a function"
        return f"it does not like {LEFT}" if work.mapping.source == LEFT else ""

    def rewrite(self, work: FamilyWork, hooks: Hooks, file: Path, table: TableOptions) -> Passed:
        self._at_work("rewrite")
        return super().rewrite(work, hooks, file, table)._replace(engine=self.name)

    def compare(self, work: FamilyWork, hooks: Hooks, new: NewFamily) -> Passed | None:
        self._at_work("compare")
        found = super().compare(work, hooks, new)
        return None if found is None else found._replace(engine=self.name)

    def digest(self, new: NewFamily, keys: KeyRange, check: Callable[[], None]) -> Digest:
        self._at_work("digest")
        return super().digest(new, keys, check)


def use(patch: pytest.MonkeyPatch, *, little_bytes: int = 0, **how: object) -> None:
    """Let this process have it."""
    patch.setattr(engines, "ENGINES", (SecondEngine(**how), Portable()))  # type: ignore[arg-type]
    patch.setattr(engines, "LITTLE_BYTES", little_bytes)


def in_further_processes(folder: Path, marks: Path, works: tuple[str, ...]) -> str:
    """A PYTHONPATH by which every Python that starts has it; at its first of these works it kills its process."""
    folder.mkdir()
    marks.mkdir()
    text = f"""
import sys
sys.path.append({str(REPOSITORY)!r})
import pytest
from tests.shared.second_engine import dying, use
use(pytest.MonkeyPatch(), at_work=dying({str(marks)!r}, {works!r}))
"""
    (folder / "sitecustomize.py").write_text(text)
    return str(folder)


def dying(marks: str, works: tuple[str, ...]) -> Callable[[str], None]:
    """What ends the process by a signal, as an error in native code does: once for each of these works."""

    def at_work(work: str) -> None:
        with Path(marks, f"{work}-calls").open("a") as calls:
            calls.write(".")
        if work not in works:
            return
        with suppress(FileExistsError):  # of two processes at once, one makes the mark
            Path(marks, work).touch(exist_ok=False)
            signal.pthread_kill(threading.get_ident(), signal.SIGSEGV)  # another thread would let this one go on

    return at_work
