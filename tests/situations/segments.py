"""Windows, sessions, histories, and unfinished upgrades."""

import shutil
from collections.abc import Mapping
from typing import Any

import migrate
from tests.bad_input.support import Migration
from tests.dry_run.segmented import (
    FAMILY,
    HEADERS_SESSION,
    HEADERS_WINDOW,
    HOUR,
    MINUTE,
    NOON,
    RETENTION,
    SESSION,
    TIMESTAMPED_WINDOW,
    WINDOW,
    Families,
    hours,
    make_segments,
    sessions,
    timestamped,
    unfinished_upgrade,
    unfinished_upgrades,
    windows,
)
from tests.shared.windowed import retentions
from tests.situations.situation import REFUSED, Do, Situation, app, completes, visits
from tests.support import KEY_VALUE, TIMESTAMPED, make_store, numbered

SESSIONS = {NOON + hour * HOUR: {"default": sessions(NOON + hour * HOUR)} for hour in range(3)}
EMPTY: dict[int, Families] = {NOON + hour * HOUR: {"default": {}} for hour in range(3)}
TWO_UPGRADES: dict[int, Families] = {
    NOON: {"default": windows(NOON), FAMILY: timestamped(windows(NOON)), "keyValueWithTimestampAndHeaders": {}}
}
HEADERS_LOST = {"source": {"format": HEADERS_WINDOW}, "conversion": {"allow": ["loss:headers"]}}
RETENTIONS: dict[str, dict[str, Any]] = {"as they are": {}, "moved": retentions(RETENTION, 6 * HOUR)}
AWAY = "next: move it away"
MOVED_AWAY = "move it away: beside a foreign name the application finds none"


def moved(
    name: str,
    retention_ms: int,
    segments: Mapping[int, Families] | None = None,
    **more: Any,  # noqa: ANN401
) -> Situation:
    """The same windows with another retention."""
    source = {"retention_ms": RETENTION, **more.pop("source", {})}
    target = {"retention_ms": retention_ms, **more.pop("target", {})}
    return visits(name, segments=segments, source=source, target=target, **more)


def without_segments(*tasks: str) -> Do:
    """Remove all segments of these tasks, as if their records had expired."""

    def lose(migration: Migration) -> None:
        for task in tasks:
            shutil.rmtree(migration.source / task / "visits")
            (migration.source / task / "visits").mkdir()

    return lose


def foreign(name: str, *, is_file: bool = False) -> Do:
    """Change the segments of one task."""

    def make(migration: Migration) -> None:
        path = migration.source / "0_1/visits" / name
        path.write_text("") if is_file else make_store(path, numbered(3))

    return make


def calls(migration: Migration) -> None:
    make_segments(migration.source, "calls", {NOON: {"default": sessions(NOON)}})


def closed(migration: Migration) -> None:
    make_segments(migration.source, "closed", {NOON: {"windowKeyValueWithHeaders": numbered(3, prefix=b"\0")}})


def of_the_same_time(migration: Migration) -> None:
    """Kafka Streams before 2.4 wrote a hyphen and the time to the minute."""
    make_store(migration.source / "0_1/visits/visits-202511221200", windows(NOON, 5))


def named_as_before_2_4(migration: Migration) -> None:
    old = migration.source / f"0_1/visits/visits.{NOON}"
    old.rename(old.with_name("visits-202511221200"))


def named_as_now(migration: Migration) -> None:
    assert (migration.target / f"0_1/visits/visits.{NOON}/CURRENT").exists()
    assert not (migration.target / "0_1/visits/visits-202511221200").exists()
    assert migrate.status(migration.load()).totals.records_out > 0


def foreign_in(folder: str) -> str:
    return f"{{source}}/0_1/visits/{folder} is no segment of the store 'visits'"


WHAT_ELSE = [
    ("kafka-streams.session", "one value for each key and session"),
    (KEY_VALUE, "one value for each key"),
    ("kafka-streams.versioned", "the history of each key"),
    ("rocksdb.raw", "one value for each key"),
]
SITUATIONS = [
    visits("segments stay"),
    visits("a segment of an older name", do=named_as_before_2_4, then=named_as_now),
    visits("sessions stay", segments=SESSIONS, source={"format": SESSION}, target={"format": HEADERS_SESSION}),
    moved("the retention shrinks", 40 * MINUTE),
    moved("the retention shrinks below a segment", 5 * MINUTE, run={"chunk_size": 8_000}),
    moved("the retention grows", 6 * HOUR),
    moved("the retention changes and nothing else", 3 * HOUR, hours(FAMILY), source={"format": TIMESTAMPED_WINDOW}),
    visits("the retention was another one", REFUSED, "its segments were made with another interval",
           "name the interval that they were made with in [source] segment_ms", source={"retention_ms": HOUR},
           target={"retention_ms": 4 * HOUR}, 
           then=completes(stores=dict, source={"retention_ms": RETENTION}, name="again")),
    moved("segments without records", 6 * HOUR, EMPTY),
    moved("a task without segments", 6 * HOUR, do=without_segments("0_0")),
    visits("a store without segments", do=without_segments("0_0", "0_1")),
    app("an unfinished upgrade", source={"format": TIMESTAMPED}, target={"format": KEY_VALUE},
        conversion={"allow": ["loss:timestamp"]}, do=lambda migration: unfinished_upgrade(migration.source)),
    moved("segments with unfinished upgrades", 100 * MINUTE, unfinished_upgrades(),
          source={"format": TIMESTAMPED_WINDOW}, target={"format": HEADERS_WINDOW}),
    visits("two unfinished upgrades", REFUSED,
           f"has records in '{FAMILY}' and 'default': two upgrades of it are unfinished, and its owner opens no such",
           "next: ", segments=TWO_UPGRADES, **HEADERS_LOST),
    *(visits(f"windows as {target}", REFUSED,
             f"{WINDOW} holds one value for each key and window, {target} holds {said}: there is no rule",
             f"next: name what it can become in [target] format: {TIMESTAMPED_WINDOW} or ", target={"format": target})
      for target, said in WHAT_ELSE),
    visits("windows as sessions with headers", REFUSED,
           f"[target] format: {HEADERS_WINDOW} or {TIMESTAMPED_WINDOW}", target={"format": HEADERS_SESSION}),
    *(visits(f"a foreign {what} among segments", REFUSED, foreign_in(name), AWAY, MOVED_AWAY,
             do=foreign(name, is_file=what == "file"))
      for what, name in (("directory", "visits.bak"), ("file", "visits.1763812800000.bak"))),
    visits("a file that is named like a segment", REFUSED, foreign_in(f"visits.{NOON - HOUR}"), AWAY,
           do=foreign(f"visits.{NOON - HOUR}", is_file=True)),
    *(visits(f"two segments of one time, {what}", REFUSED,
             f"{{source}}/0_1/visits has two segments of one time: visits-202511221200 and visits.{NOON}",
             "next: an older version of the application named one of them", do=of_the_same_time, **sections)
      for what, sections in RETENTIONS.items()),
    visits("sessions named as windows", REFUSED, "sampled keys of 0_0/calls/calls.",
           "lie outside the time of their segment", f"next: is {WINDOW} the format that the store has?",
           source={"store": "calls"}, do=calls, needs_records=True),
    visits("a store that emits on close", REFUSED, f"closed.{NOON} belongs to a window store that emits when a window "
           "closes, which cannot be converted: its keys", "next: let the application restore it from its changelog",
           do=closed, source={"store": "closed", "format": HEADERS_WINDOW}, conversion={"allow": ["loss:headers"]}),
    visits("more segments than anyone wants", REFUSED,
           "the records there, in segments of 1,000 ms, would be 3,600 or more RocksDB directories",
           "next: check retention_ms and segment_ms", source={"retention_ms": RETENTION},
           target={"retention_ms": 24 * HOUR, "segment_ms": 1000}),
]  # fmt: skip
