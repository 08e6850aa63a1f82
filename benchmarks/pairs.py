"""Conversions between other pairs of formats: by the product, and by the bare loop over `items()`.

Each bare loop does no more than its pair needs. It checks nothing, and counts nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rocksdict import Rdict, SstFileWriter

from benchmarks.routes import ENGINE_NAMES, PREFIX, open_bare, rewrite, warmed_up
from migrate.spec.conversion_ref import ConversionRef
from migrate.stores.rocksdb.writing import TableOptions, table_options

Loop = Callable[[Rdict, SstFileWriter], None]
PairRoute = Callable[[str, Path, Path], dict[str, float] | None]
_PACK_SIZE = struct.Struct("<i").pack


def _add_timestamp(database: Rdict, writer: SstFileWriter) -> None:
    for key, value in database.items():
        writer[key] = PREFIX + value


def _add_no_headers(database: Rdict, writer: SstFileWriter) -> None:
    for key, value in database.items():
        writer[key] = b"\0" + value


def _drop_headers(database: Rdict, writer: SstFileWriter) -> None:
    for key, value in database.items():
        writer[key] = value[(value[0] >> 1) + 1 :]


def _drop_headers_and_timestamp(database: Rdict, writer: SstFileWriter) -> None:
    for key, value in database.items():
        writer[key] = value[(value[0] >> 1) + 9 :]


def _from_streamiz(database: Rdict, writer: SstFileWriter) -> None:
    for key, value in database.items():
        writer[key] = value[7::-1] + value[12:]


def _to_streamiz(database: Rdict, writer: SstFileWriter) -> None:
    for key, value in database.items():
        writer[key] = value[7::-1] + _PACK_SIZE(len(value) - 8) + value[8:]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two formats, and what takes a value from one to the other."""

    source: str
    target: str
    loop: Loop


PAIRS = {
    "timestamped to headers": Pair(
        "kafka-streams.timestamped-key-value", "kafka-streams.headers-key-value", _add_no_headers
    ),
    "headers to timestamped": Pair(
        "kafka-streams.headers-key-value", "kafka-streams.timestamped-key-value", _drop_headers
    ),
    "headers to plain": Pair("kafka-streams.headers-key-value", "kafka-streams.key-value", _drop_headers_and_timestamp),
    "window to timestamped window": Pair("kafka-streams.window", "kafka-streams.timestamped-window", _add_timestamp),
    "headers window to timestamped window": Pair(
        "kafka-streams.headers-window", "kafka-streams.timestamped-window", _drop_headers
    ),
    "session to headers session": Pair("kafka-streams.session", "kafka-streams.headers-session", _add_no_headers),
    "Streamiz to Kafka Streams, timestamped": Pair(
        "streamiz.timestamped-key-value", "kafka-streams.timestamped-key-value", _from_streamiz
    ),
    "Kafka Streams to Streamiz, timestamped": Pair(
        "kafka-streams.timestamped-key-value", "streamiz.timestamped-key-value", _to_streamiz
    ),
}


def _by_engine(engine: str) -> PairRoute:
    def convert(name: str, source: Path, folder: Path) -> dict[str, float]:
        conversion = ConversionRef(PAIRS[name].source, PAIRS[name].target)
        with warmed_up(engine, source, folder, conversion) as spent:
            rewrite(source, folder / "new.sst", conversion=conversion, engine=engine)
        return spent

    return convert


def by_a_bare_loop(name: str, source: Path, folder: Path) -> None:
    """The shortest loop."""
    database = open_bare(source)
    writer = SstFileWriter(table_options(TableOptions()))
    writer.open(str(folder / "bare.sst"))
    PAIRS[name].loop(database, writer)
    writer.finish()
    database.close()


PAIR_ROUTES: dict[str, PairRoute] = {
    **{engine: _by_engine(engine) for engine in ENGINE_NAMES},
    "bare": by_a_bare_loop,
}
