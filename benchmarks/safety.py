"""The jobs of `benchmarks.durability`, each in a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.routes import CONVERSION
from benchmarks.stores import PLAIN, ensure_store
from migrate import cutover, rollback, run
from migrate.batch.ledger.table import Ledger
from migrate.model.events import Event
from migrate.spec.spec import Spec, parse_spec

Facts = dict[str, Any]


class EnoughError(Exception):
    """Ends a run at an event."""


def durable_run(source: str, folder: str) -> Facts:
    """A whole run, with a clock around ledger commits and around every fsync of ours outside of them."""
    spec = make_spec(folder, {"path": source}, target={"path": "published"})
    with _clock() as spent:
        begun = time.perf_counter()
        report = run(spec)
        seconds = time.perf_counter() - begun
    return {"seconds": seconds, "durable_seconds": sum(spent), "calls": len(spent), "chunks": report.totals.chunks}


@contextmanager
def _clock() -> Iterator[list[float]]:
    """Seconds of each commit and sync; a sync inside a commit is the commit's."""
    spent: list[float] = []
    depth = 0

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:  # noqa: ANN401 - whatever the function takes and gives
            nonlocal depth
            depth += 1
            begun = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                depth -= 1
                if depth == 0:
                    spent.append(time.perf_counter() - begun)

        return call

    fsync, commit = os.fsync, Ledger.commit
    os.fsync, Ledger.commit = timed(fsync), timed(commit)  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        os.fsync, Ledger.commit = fsync, commit  # type: ignore[method-assign]


def interrupted_run(source: str, folder: str, chunks: int, left: int) -> Facts:
    """A migration whose chunks are finished, but for about `left`, as a kill leaves it; not a measurement."""
    spec = make_spec(folder, {"path": source}, target={"path": "published"}, run={"chunk_size": _size(source, chunks)})
    done = 0

    def listener(event: Event) -> None:
        nonlocal done
        if event.name == "chunk.finished":
            done += len(event.facts["receipts"])
            if done >= chunks - left:
                raise EnoughError

    _until_enough(spec, listener)
    return {"chunks": done}


def resume(source: str, folder: str, chunks: int) -> Facts:
    """What a run needs until it rewrites the first chunk that is left."""
    spec = make_spec(folder, {"path": source}, target={"path": "published"}, run={"chunk_size": _size(source, chunks)})

    def listener(event: Event) -> None:
        if event.name == "chunk.started":
            raise EnoughError

    begun = time.perf_counter()
    _until_enough(spec, listener)
    return {"seconds": time.perf_counter() - begun}


def _until_enough(spec: Spec, listener: Callable[[Event], None]) -> None:
    try:
        run(spec, on_event=listener)
    except EnoughError:
        return
    raise AssertionError("the run came to its end")


def _size(source: str, chunks: int) -> int:
    """Stores of benchmarks are not compressed: a chunk's share of the files is its share of the records."""
    return sum(file.stat().st_size for file in Path(source).glob("*.sst")) // chunks


def small_store(path: str, records: int) -> Facts:
    """Not a measurement."""
    made = ensure_store(Path(path).parent, PLAIN, records).path
    made.rename(path)
    return {}


def run_in_place(folder: str, application: str) -> Facts:
    """Verified new stores, to be cut over."""
    return {"phases": run(_in_place(folder, application)).seconds}


def switch(folder: str, application: str) -> Facts:
    """There and back."""
    spec = _in_place(folder, application)
    seconds = {}
    for verb in (cutover, rollback):
        begun = time.perf_counter()
        verb(spec)
        seconds[verb.__name__] = time.perf_counter() - begun
    return seconds


def _in_place(folder: str, application: str) -> Spec:
    return make_spec(folder, {"path": application, "store": "orders"})


def make_spec(folder: str, source: dict[str, str], **sections: dict[str, Any]) -> Spec:
    """A migration in `folder` to a timestamped store; `sections` add to the others of its spec."""
    content: dict[str, Any] = {
        "name": "benchmark",
        "work_dir": "work",
        "source": {"format": CONVERSION.source, **source},
        **sections,
        "target": {"format": CONVERSION.target, **sections.get("target", {})},
    }
    return parse_spec(content, base_dir=Path(folder))


JOBS: dict[str, Callable[..., Facts]] = {
    "durable-run": durable_run,
    "interrupted-run": interrupted_run,
    "resume": resume,
    "small-store": small_store,
    "run-in-place": run_in_place,
    "switch": switch,
}
