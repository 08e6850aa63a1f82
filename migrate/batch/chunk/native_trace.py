"""Traces of work in native code: a process that dies in it leaves one, and the portable engine does that work then.

The trace is a file in the migration's folder, made before the work and removed after it, whatever comes of it but the
death of the process. Any later attempt finds it: in another process, on another host, or by the next run. A trace says
no more than that; one that a power cut or a kill has left costs the speed of one task. Traces that are found stay until
the new stores are verified, so that they add up: after a few of them a run uses no native code at all.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from migrate.batch.home import CHUNKS
from migrate.engine.engine import Engine
from migrate.engine.engines import engines_for
from migrate.model.comparison import Verification
from migrate.model.display import plural
from migrate.model.engine_choice import EngineSetting
from migrate.model.key_range import KeyRange
from migrate.model.receipt import Receipt

_SUFFIX = "-native.breadcrumb"


class Trace:
    """The trace of one piece of work, by its place and its keys: every attempt at it looks for the same file."""

    def __init__(self, home: str, work: tuple[str, ...], keys: KeyRange, setting: EngineSetting) -> None:
        """`work`: what is done, and where; `setting`: the run's."""
        name = repr((work, keys.start, keys.end))
        self._file = f"{home}/{CHUNKS}/{hashlib.sha256(name.encode()).hexdigest()[:12]}{_SUFFIX}"
        self.is_found = setting != "portable" and os.path.exists(self._file)  # noqa: PTH110 - for each task
        """Whether a process has died at this work, which is portable's therefore."""
        self.engines: tuple[Engine, ...] = engines_for("portable" if self.is_found else setting)
        """Those that may do the work now."""

    @contextmanager
    def left(self) -> Iterator[None]:
        """A context for the work of an engine that may take the process down."""
        Path(self._file).parent.mkdir(exist_ok=True)
        os.close(os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o644))
        try:
            yield
        finally:
            Path(self._file).unlink(missing_ok=True)


def count_traces(home: Path) -> int:
    """The number of pieces of work at which a process has died, or was killed."""
    return sum(1 for _ in (home / CHUNKS).glob(f"*{_SUFFIX}"))


def remove_traces(home: Path) -> None:
    """Forget them: all work is done."""
    for file in (home / CHUNKS).glob(f"*{_SUFFIX}"):
        file.unlink(missing_ok=True)


def deaths_in_words(receipts: Iterable[Receipt], verification: Verification | None) -> Iterator[str]:
    """What traces have led to, a sentence each: of the chunks, and of the ranges that were compared."""
    chunks = sum(receipt.is_after_death for receipt in receipts)
    ranges = 0 if verification is None else verification.after_deaths
    for count, what, work in ((chunks, "chunk", "converted"), (ranges, "key range", "compared")):
        if count:
            it = "it" if count == 1 else "them"
            yield f"{plural(count, what)} ran on portable: a process died, or was killed, while native code {work} {it}"
