"""The jobs of `benchmarks.engines`: one engine by its name, at work on a real store.

What an engine does once in a process, such as compiling its loop, is done on a few records before the clock starts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from rocksdict import SstFileWriter

from benchmarks.evolving import CHANGES, OLD, by_fastavro
from benchmarks.rounds import seconds, seconds_since
from benchmarks.routes import FEW, engine_named, family_work, make_hooks, open_bare, rewrite, warmed_up
from formats.avro.schema import AvroSchema
from formats.serdes.avro_serde import AvroSerde
from migrate.engine.engine import NewFamily
from migrate.model.key_range import KeyRange
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.serdes import PayloadSerdes
from migrate.stores.rocksdb.openings import keeping_open
from migrate.stores.rocksdb.writing import TableOptions, table_options

Facts = dict[str, Any]
_PLAIN = "kafka-streams.key-value"


def engine_pass(engine: str, mode: str, source: str, folder: str, target: str) -> Facts:
    """One pass over the whole store; `target`: the new store to compare it with, or to digest."""
    begun = time.perf_counter()
    run = partial(_pass, engine, mode, (Path(source), Path(target)))
    run(Path(folder) / "few.sst", FEW)
    first, clock = time.perf_counter() - begun, seconds()
    found = run(Path(folder) / "new.sst", KeyRange())
    return {**seconds_since(clock), **found, "first": first}


def _pass(engine: str, mode: str, stores: tuple[Path, Path], file: Path, keys: KeyRange) -> Facts:
    source, target = stores
    if mode == "rewrite":
        passed = rewrite(source, file, keys, engine=engine)
        return {"scanned": passed.scanned._asdict(), "written": passed.written._asdict()}
    new = NewFamily(target, "default")
    if mode == "digest":
        return {"scanned": engine_named(engine).digest(new, keys, lambda: None)._asdict()}
    compared = engine_named(engine).compare(family_work(source, keys), make_hooks(), new)
    if compared is None:
        raise AssertionError(f"{engine} takes {source} and {target} for different stores")
    return {"records": compared.written.records}


def in_threads(engine: str, source: str, folder: str, edges: Sequence[str | None], threads: int) -> Facts:
    """The chunks between these keys, dealt out to so many threads of one process."""
    bounds = pairwise(None if edge is None else edge.encode("ascii") for edge in edges)

    def chunk(number: int, start: bytes | None, end: bytes | None) -> None:
        rewrite(Path(source), Path(folder) / f"{number}.sst", KeyRange(start=start, end=end), engine=engine)

    with warmed_up(engine, Path(source), Path(folder)) as spent, keeping_open(), ThreadPoolExecutor(threads) as pool:
        for each in [pool.submit(chunk, number, *keys) for number, keys in enumerate(bounds)]:
            each.result()
    return spent


def segments(engine: str, stores: Sequence[str], folder: str) -> Facts:
    """One store after the other."""
    with warmed_up(engine, Path(stores[0]), Path(folder)) as spent:
        for number, store in enumerate(stores):
            rewrite(Path(store), Path(folder) / f"{number}.sst", engine=engine)
    return spent


def evolved(change: str, route: str, source: str, folder: str) -> Facts:
    """A store of Avro values, rewritten for another schema: by an engine, or by the bare loop with fastavro."""
    new, file = CHANGES[change](), Path(folder) / "new.sst"
    if route == "fastavro":
        _by_fastavro(by_fastavro(new), Path(source), file)
        return {}
    old, after = (AvroSerde(((None, AvroSchema(json.dumps(schema))),), "none") for schema in (OLD, new))
    conversion = ConversionRef(_PLAIN, _PLAIN, value=PayloadSerdes(old, after, ""))
    with warmed_up(route, Path(source), Path(folder), conversion) as spent:
        rewrite(Path(source), file, conversion=conversion, engine=route)
    return spent


def _by_fastavro(convert: Callable[[list[bytes]], list[bytes]], source: Path, file: Path) -> None:
    database = open_bare(source)
    writer = SstFileWriter(table_options(TableOptions()))
    writer.open(str(file))
    for key, value in database.items():
        writer[key] = convert([value])[0]
    writer.finish()
    database.close()


JOBS: dict[str, Callable[..., Facts]] = {
    "engine-pass": engine_pass,
    "engine-threads": in_threads,
    "engine-segments": segments,
    "engine-avro": evolved,
}
