"""Applications with windowed and session stores, made by hand, and what a migration is to make of them."""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from migrate.spec.spec import Spec, parse_spec
from tests.support import Records, make_families, read_families

MINUTE = 60_000
PLAIN = "default"
TIMESTAMPED = "keyValueWithTimestamp"
WITH_HEADERS = "keyValueWithTimestampAndHeaders"
OFFSETS = "offsets"
UNKNOWN = b"\xff" * 8
NO_HEADERS = b"\x00"
TOPIC = "app-win-changelog"

Families = dict[str, dict[bytes, bytes]]


def window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes:
    return key + start_ms.to_bytes(8, "big", signed=True) + sequence.to_bytes(4, "big")


def session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    return key + end_ms.to_bytes(8, "big", signed=True) + start_ms.to_bytes(8, "big", signed=True)


def window_time(key: bytes) -> int:
    return int.from_bytes(key[-12:-4], "big", signed=True)


def session_time(key: bytes) -> int:
    return int.from_bytes(key[-16:-8], "big", signed=True)


def random_key(rng: random.Random) -> bytes:
    """Of few different ones, so that segments have them in common; prefixes of one another, of 0x00 and of 0xff."""
    return rng.choice((b"", b"\x00", b"a", b"ab", b"ab\x00", b"\xff" * 12, rng.randbytes(rng.randint(1, 40))))


def windows(count: int, *, until: int, since: int = 0, seed: int = 1) -> dict[bytes, bytes]:
    """Records of a window store, over all that time, in key order."""
    rng = random.Random(seed)
    keys = sorted({window_key(random_key(rng), rng.randrange(since, until)) for _ in range(count)})
    return {key: b"value %d" % number for number, key in enumerate(keys)}


def sessions(count: int, *, until: int, seed: int = 2) -> dict[bytes, bytes]:
    """Records of a session store: each began somewhat before it ended."""
    rng = random.Random(seed)
    ends = [rng.randrange(until) for _ in range(count)]
    keys = sorted({session_key(random_key(rng), max(0, end - rng.randrange(40 * MINUTE)), end) for end in ends})
    return {key: b"session %d" % number for number, key in enumerate(keys)}


def by_segment(
    records: Records, size_ms: int, time: Callable[[bytes], int] = window_time
) -> dict[int, dict[bytes, bytes]]:
    """The records of each segment, by its start."""
    found: defaultdict[int, dict[bytes, bytes]] = defaultdict(dict)
    for key in sorted(records):
        found[time(key) // size_ms * size_ms][key] = records[key]
    return dict(sorted(found.items()))


def make_segments(
    store: Path,
    records: Records,
    size_ms: int,
    *,
    family: str = PLAIN,
    time: Callable[[bytes], int] = window_time,
    own: Mapping[str, Records] | None = None,
    name: str = "{store}.{start}",
) -> None:
    """A store partition, `own`: families of the system's own in each segment."""
    store.mkdir(parents=True, exist_ok=True)
    for start, mine in by_segment(records, size_ms, time).items():
        make_families(store / name.format(store=store.name, start=start), {**(own or {}), family: mine})


def read_segments(store: Path) -> dict[int, Families]:
    """Every segment of a store partition, by its start; each must bear today's name."""
    found = {}
    for folder in store.iterdir():
        prefix, _, start = folder.name.rpartition(".")
        assert prefix == store.name, f"{folder} is no segment"
        found[int(start)] = read_families(folder)
    return dict(sorted(found.items()))


def records_of(segments: Mapping[int, Families], family: str) -> dict[int, dict[bytes, bytes]]:
    """Those of one family, by segment, without the segments that have none."""
    return {start: families[family] for start, families in segments.items() if families[family]}


def offsets(offset: int | None, *, topic: str = TOPIC, position: bytes | None = None) -> dict[bytes, bytes]:
    """What 4.3 keeps in each database, after a clean stop."""
    entries = {b"status": bytes(8)}
    if offset is not None:
        entries[f"{topic}-0".encode()] = offset.to_bytes(8, "big", signed=True)
    if position is not None:
        entries[b"position"] = position
    return dict(sorted(entries.items()))


def position(topic: str, numbers: Mapping[int, int]) -> bytes:
    """As PositionSerde writes it, with the zeros that it leaves behind it."""
    name = topic.encode()
    pairs = b"".join(number.to_bytes(4, "big") + offset.to_bytes(8, "big") for number, offset in numbers.items())
    head = b"\x00" + (1).to_bytes(4, "big") + len(name).to_bytes(4, "big") + name
    return head + len(numbers).to_bytes(4, "big") + pairs + bytes(175)


def checkpoint(*lines: str) -> str:
    """The text of a side file."""
    return "\n".join(["0", str(len(lines)), *lines, ""])


def windowed_spec(base: Path, source: str = "kafka-streams.window", target: str = "", /, **sections: Any) -> Spec:  # noqa: ANN401
    """The store `win` of `base`/app, in place unless [target] has a path; formats are alike unless both are told."""
    content: dict[str, Any] = {
        "name": "test",
        "work_dir": "work",
        "source": {"format": source, "path": "app", "store": "win"},
        "target": {"format": target or source},
    }
    for name, section in sections.items():
        content[name] = {**content[name], **section} if isinstance(content.get(name), dict) else section
    return parse_spec(content, base_dir=base)


def retentions(old: int, new: int, **of_both: object) -> dict[str, dict[str, object]]:
    """Sections of a spec: from one retention to another, in milliseconds."""
    return {"source": {"retention_ms": old, **of_both}, "target": {"retention_ms": new, **of_both}}
