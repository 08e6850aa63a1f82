"""Specs with mistakes: each one is reported, and no file is written."""

from tests.bad_input.support import Migration
from tests.dry_run.segmented import HOUR, WINDOW
from tests.situations.situation import REFUSED, USAGE, Situation, app, raw, visits
from tests.support import RAW

SEGMENTED = "only windowed and session stores, by name, have segments by time"
VERSIONED = {"format": "kafka-streams.versioned"}
NO_NAME = "name: should be lower-case letters, digits and hyphens"
FUNCTION = 'conversion.function: should be "module:function"'
SIZE = 'run.chunk_size: should be a size, like "512 MiB"'

UNKNOWN: list[tuple[str, dict[str, object], str]] = [
    ("", {"nmae": "x"}, "unknown key 'nmae': did you mean 'name'?"),
    ("", {"workdir": "x"}, "unknown key 'workdir': did you mean 'work_dir'?"),
    ("", {"base_dir": "x"}, "unknown key 'base_dir'"),
    ("source", {"stroe": "orders"}, "unknown key 'source.stroe': did you mean 'store'?"),
    ("target", {"paht": "x"}, "unknown key 'target.paht': did you mean 'path'?"),
    ("conversion", {"default_timestamp": 1}, "default_timestamp': did you mean 'default_timestamp_ms'?"),
    ("run", {"chunksize": 1}, "unknown key 'run.chunksize': did you mean 'chunk_size'?"),
    ("run", {"zzz": 1}, "unknown key 'run.zzz': known: chunk_size"),
    ("convert", {"function": "a:b"}, "unknown key 'convert': did you mean 'conversion'?"),
]
WRONG: list[tuple[str, dict[str, object], str]] = [
    ("source", {"format": "kafka-stream.keyvalue"}, "did you mean 'kafka-streams.key-value'?"),
    ("source", {"format": "rocksdb.rw"}, "did you mean 'rocksdb.raw'?"),
    ("target", {"format": "timestamped"}, "[target] unknown format 'timestamped': did you"),
    (
        "target",
        {"format": "kafka-streams.timestamp-key-value"},
        "[target] unknown format 'kafka-streams.timestamp-key-value': did you mean "
        "'kafka-streams.timestamped-key-value'?",
    ),
    ("target", {"format": ""}, "known formats: kafka-streams.key-value, "),
    ("source", {"stores": ["refunds"]}, "source: give `store` or `stores`, not both"),
    ("source", {"store": 7}, "source.store: should be text, in quotes, is 7"),
    ("source", {"path": 7}, "source.path: should be a path, in quotes, is 7"),
    ("conversion", {"allow": ["loss:time"]}, "conversion.allow.0: should be 'application-id', 'changelog'"),
    ("conversion", {"allow": "changelog"}, "conversion.allow: should be a list, in brackets, is 'changelog'"),
    ("conversion", {"default_timestamp_ms": "now"}, "conversion.default_timestamp_ms: should be a whole number"),
    ("conversion", {"default_timestamp_ms": -2}, "greater than or equal to -1"),
    ("conversion", {"default_timestamp_ms": 1 << 63}, "should be less than 9223372036854775808"),
    ("conversion", {"function": "convert"}, FUNCTION),
    ("conversion", {"function": "my module:f"}, FUNCTION),
    ("conversion", {"function": "a:b()"}, FUNCTION),
    ("run", {"chunk_size": "large"}, SIZE),
    ("run", {"chunk_size": "1 GB/s"}, f"{SIZE}, is '1 GB/s'"),
    ("run", {"chunk_size": "-1 GB"}, SIZE),
    ("run", {"chunk_size": 0}, "run.chunk_size: should be greater than 0"),
    ("run", {"chunk_size": "0 B"}, "run.chunk_size: should be greater than 0"),
    ("run", {"time_budget": "2 hours"}, 'run.time_budget: a duration is a number and a unit, like "90s"'),
    ("run", {"time_budget": 90}, "run.time_budget: a duration is a number and a unit"),
    ("run", {"on_reject": "ignore"}, "run.on_reject: should be 'fail', 'skip' or 'dead-letter'"),
    ("run", {"max_reject": 1}, "unknown key 'run.max_reject': did you mean 'max_rejects'?"),
    ("run", {"max_rejects": -1}, "run.max_rejects: should be greater than or equal to 0"),
    ("run", {"max_reject_share": 5}, "run.max_reject_share: should be less than or equal to 1"),
    ("target", {"version": 4.3}, "target.version: should be text, in quotes, is 4.3"),
    ("target", {"version": "4"}, """target.version: should be a version, like "4.3", is '4'"""),
    ("target", {"version": "latest"}, 'target.version: should be a version, like "4.3"'),
    ("target", {"version": "3.8"}, "[target] version: Kafka Streams 3.8 is not known, 3.9 to 4.3 are"),
    ("target", {"version": "5.0.1"}, "Kafka Streams 5.0.1 is not known, 3.9 to 4.3 are; for another one leave"),
    ("run", {"source": "snapshots"}, "run.source: should be 'live' or 'snapshot'"),
    ("run", {"source": "snapshot"}, "goes with `cutover`, not with [target] path"),
    ("run", {"verify": "fast"}, "run.verify: should be 'full', 'digest' or 'off'"),
    ("run", {"verify": True}, "run.verify: should be 'full', 'digest' or 'off', is True"),
    ("run", {"snapshot": "rename"}, "run.snapshot: should be 'link' or 'copy'"),
]


def mistake(section: str, keys: dict[str, object], said: str) -> Situation:
    name = f"{section or 'the spec'} with {', '.join(f'{key} {value}' for key, value in keys.items())}"
    return app(name, USAGE, "migration.toml", said, **({section: keys} if section else keys))


def nameless(migration: Migration) -> None:
    del migration.spec["name"]


SITUATIONS = [
    *(mistake(*row) for row in (*UNKNOWN, *WRONG)),
    *(app(f"the name {name!r}", USAGE, NO_NAME, do=lambda migration, name=name: migration.spec.update(name=name))
      for name in ("", "Orders", "../orders", "a b")),
    app("a number as the name", USAGE, "name: should be text, in quotes, is 5",
        do=lambda migration: migration.spec.update(name=5)),
    app("a store named twice", USAGE, "source: `stores` names a store twice",
        source={"format": RAW, "path": "x", "store": None, "stores": ["orders", "orders"]}),
    app("many mistakes", USAGE, "migration.toml has mistakes: - ", "'name' is missing", "- unknown key 'source.stroe'",
        "- run.verify", "next: fix them and run the command again", do=nameless, source={"stroe": "orders"},
        run={"verify": "fast"}),
    app("a section that is a value", USAGE, "source: ", "section", source="state"),
    app("a format without stores, and a store", USAGE, "no stores by name", "orders", "leave `store` out",
        source={"format": RAW}, target={"format": RAW}, doctor=REFUSED),
    raw("a version of a format without an owner", USAGE,
        f"[target] version: {RAW} has no owning system whose version could matter: leave it out",
        target={"version": "9.8"}),
    app("a retention of a key-value store", USAGE, f"[source] retention_ms: {SEGMENTED}",
        source={"retention_ms": HOUR}),
    app("a retention of a versioned store", USAGE,
        "[source] retention_ms: a versioned store's history stays in the segments that hold it",
        source={**VERSIONED, "retention_ms": HOUR}, target={**VERSIONED, "retention_ms": 2 * HOUR}),
    visits("a retention of one RocksDB directory", USAGE, f"[source] retention_ms: {SEGMENTED}",
           source={"format": WINDOW, "path": "visits-app/0_0/visits", "store": None, "retention_ms": HOUR}),
    visits("a new retention without the old one", USAGE, "[target] retention_ms needs [source] retention_ms",
           "how the old store's segments were made", target={"retention_ms": HOUR}),
    visits("a segment size without its retention", USAGE, "[source] segment_ms has no effect without retention_ms",
           source={"segment_ms": HOUR}),
]  # fmt: skip
