"""Migrates stores of a real state directory one after the other, and says what they must hold then."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from migrate import RunReport, Spec, run
from migrate.spec.spec import parse_spec
from tests.live.kafka_streams import kinds
from tests.live.kafka_streams.events import Event, Row, random_events, read_expected, touching_events, write_expected
from tests.live.kafka_streams.kinds import KINDS, RETENTION_MS, versions_of
from tests.live.kafka_streams.model import rows_after, rows_as
from tests.live.kafka_streams.program import Verdict, make_state_of, open_state, write_more

APPLICATION = "shop-app"
RECORDS = 300
_SPECIAL_FORMATS = {kinds.JOIN_WINDOW: kinds.WINDOW, kinds.HEADERS_JOIN_WINDOW: kinds.HEADERS_WINDOW}


@dataclass(frozen=True, slots=True)
class Application:
    """A state directory, what its stores are, and what they must hold."""

    version: str
    path: Path
    kinds: Mapping[str, str]
    """Of each store by name."""
    expected: Path
    retentions: Mapping[str, int] = field(default_factory=dict)
    """Of the stores whose retention is not RETENTION_MS."""

    @property
    def tasks(self) -> list[str]:
        return sorted(path.name for path in self.expected.iterdir())

    def rows(self, task: str, store: str) -> list[Row]:
        """What a store of a task must hold."""
        return read_expected(self.expected / task / f"{store}.jsonl.gz")

    def records(self, store: str) -> int:
        """How many records a store must hold, over all tasks; deleted versions are none."""
        return sum(row.value is not None for task in self.tasks for row in self.rows(task, store))

    def open(
        self, *stores: str, version: str | None = None, exactly_once: bool = False, in_place: bool = False
    ) -> Verdict:
        """Open these stores, or all, by the version that made them or another one."""
        first, *others = stores or tuple(self.kinds)
        (retention_ms,) = {self.retentions.get(store, RETENTION_MS) for store in (first, *others)}
        return open_state(
            version or self.version,
            self.path,
            store=first,
            kind=self.kinds[first],
            expected=self.expected,
            other_stores={store: self.kinds[store] for store in others},
            exactly_once=exactly_once,
            in_place=in_place,
            retention_ms=retention_ms,
        )


PAIRS: Final = (
    (kinds.KEY_VALUE, kinds.TIMESTAMPED_KEY_VALUE),
    (kinds.KEY_VALUE, kinds.VERSIONED),
    (kinds.KEY_VALUE, kinds.HEADERS_KEY_VALUE),
    (kinds.TIMESTAMPED_KEY_VALUE, kinds.KEY_VALUE),
    (kinds.TIMESTAMPED_KEY_VALUE, kinds.VERSIONED),
    (kinds.TIMESTAMPED_KEY_VALUE, kinds.HEADERS_KEY_VALUE),
    (kinds.HEADERS_KEY_VALUE, kinds.TIMESTAMPED_KEY_VALUE),
    (kinds.HEADERS_KEY_VALUE, kinds.KEY_VALUE),
    (kinds.HEADERS_KEY_VALUE, kinds.VERSIONED),
    (kinds.VERSIONED, kinds.VERSIONED),
    (kinds.VERSIONED, kinds.KEY_VALUE),
    (kinds.VERSIONED, kinds.TIMESTAMPED_KEY_VALUE),
    (kinds.VERSIONED, kinds.HEADERS_KEY_VALUE),
    (kinds.WINDOW, kinds.TIMESTAMPED_WINDOW),
    (kinds.WINDOW, kinds.HEADERS_WINDOW),
    (kinds.TIMESTAMPED_WINDOW, kinds.WINDOW),
    (kinds.TIMESTAMPED_WINDOW, kinds.HEADERS_WINDOW),
    (kinds.HEADERS_WINDOW, kinds.WINDOW),
    (kinds.HEADERS_WINDOW, kinds.TIMESTAMPED_WINDOW),
    (kinds.JOIN_WINDOW, kinds.JOIN_WINDOW),
    (kinds.JOIN_WINDOW, kinds.HEADERS_JOIN_WINDOW),
    (kinds.HEADERS_JOIN_WINDOW, kinds.JOIN_WINDOW),
    (kinds.SESSION, kinds.SESSION),
    (kinds.SESSION, kinds.HEADERS_SESSION),
    (kinds.HEADERS_SESSION, kinds.SESSION),
)
"""What a store of a kind can become. An application of every kind has one store for each: `session-1`, `session-2`."""


def pairs_of(version: str) -> dict[str, tuple[str, str]]:
    """(its kind, what it can become) of each store of an application of every kind."""
    numbers: Counter[str] = Counter()
    pairs = {}
    for old, new in PAIRS:
        if version in versions_of(old) and version in versions_of(new):
            numbers[old] += 1
            pairs[f"{old}-{numbers[old]}"] = (old, new)
    return pairs


def make_every_kind(version: str, folder: Path) -> Application:
    """An application with some stores of each kind."""
    return make_application(version, folder, {store: old for store, (old, _) in pairs_of(version).items()})


def make_application(
    version: str, folder: Path, stores: Mapping[str, str], *, value: Callable[[str, bytes], bytes] | None = None
) -> Application:
    """With random records, in two tasks; `stores`: kinds by name; `value`: of a store, what to write in place of it."""
    path = folder / APPLICATION
    events = {
        f"0_{number}": {
            store: [
                each if value is None or each.value is None else replace(each, value=value(store, each.value))
                for each in random_events(kind, RECORDS, seed=f"{number}/{store}")
            ]
            for store, kind in stores.items()
        }
        for number in range(2)
    }
    return Application(version, path, stores, make_state_of(version, path, kinds=stores, events=events))


def half_upgraded(source: Application, folder: Path, kinds: Mapping[str, str]) -> Application:
    """A copy in which Kafka Streams itself has begun to upgrade these stores, which are all that counts in it."""
    path, expected = folder / APPLICATION, folder / "expected"
    shutil.copytree(source.path, path, symlinks=True)
    events: dict[str, dict[str, list[Event]]] = {}
    for task in source.tasks:
        events[task] = {}
        for store, kind in kinds.items():
            rows = rows_as(kind, source.rows(task, store))
            events[task][store] = touched = touching_events(rows, seed=f"{task}/{store}")
            write_expected(expected / task / f"{store}.jsonl.gz", rows_after(kind, touched, before=rows))
    write_more(source.version, path, kinds=kinds, events=events)
    return replace(source, path=path, kinds=kinds, expected=expected)


def spec_of(
    source: Application,
    folder: Path,
    *stores: str,
    kind: str,
    retention_ms: int | None = None,
    version: str | None = None,
    conversion: Mapping[str, Any] | None = None,
    in_place: bool = False,
) -> Spec:
    """The stores, of one kind, become those of another; published in `folder`, unless to be cut over to.

    `retention_ms`: the new one; `version`: that is to open them; `conversion`: what else that section says.
    """
    (old_kind,) = {source.kinds[store] for store in stores}
    old: dict[str, Any] = {"format": format_of(old_kind), "path": str(source.path), "stores": list(stores)}
    new: dict[str, Any] = {"format": format_of(kind)}
    if retention_ms is not None:
        (old["retention_ms"],) = {source.retentions.get(store, RETENTION_MS) for store in stores}
        new["retention_ms"] = retention_ms
    if version is not None:
        new["version"] = version
    if not in_place:
        new["path"] = APPLICATION
    content = {
        "name": f"{stores[0]}-migration",
        "work_dir": "work",
        "source": old,
        "target": new,
        "conversion": {"allow": losses(old_kind, kind), **(conversion or {})},
        "run": {"chunk_size": "16 KiB"},
    }
    folder.mkdir(parents=True, exist_ok=True)
    return parse_spec(content, base_dir=folder)


def migrate(
    source: Application,
    folder: Path,
    store: str,
    kind: str,
    *,
    retention_ms: int | None = None,
    version: str | None = None,
    conversion: Mapping[str, Any] | None = None,
    value: Callable[[bytes], bytes] | None = None,
) -> tuple[Application, RunReport]:
    """Run the migration; return the application as it is published in `folder`. `value`: what each value becomes."""
    spec = spec_of(source, folder, store, kind=kind, retention_ms=retention_ms, version=version, conversion=conversion)
    report = run(spec)
    assert report.verification.ok
    return as_migrated(source, spec, kind, folder / "expected", value=value), report


def as_migrated(
    source: Application, spec: Spec, kind: str, expected: Path, *, value: Callable[[bytes], bytes] | None = None
) -> Application:
    """What the application must be once the spec's migration is done; `expected` is filled with what it must hold."""
    names = spec.source.store_names
    retention_ms = spec.target.retention_ms
    shutil.copytree(source.expected, expected)
    for task in source.tasks:
        for store in names:
            rows = rows_as(
                kind,
                source.rows(task, store),
                timestamp=spec.conversion.default_timestamp_ms,
                retention_ms=retention_ms,
            )
            if value is not None:
                rows = [row if row.value is None else replace(row, value=value(row.value)) for row in rows]
            write_expected(expected / task / f"{store}.jsonl.gz", rows)
    retentions = {} if retention_ms is None else dict.fromkeys(names, retention_ms)
    return replace(
        source,
        path=spec.target_path or source.path,
        kinds={**source.kinds, **dict.fromkeys(names, kind)},
        expected=expected,
        retentions={**source.retentions, **retentions},
    )


def format_of(kind: str) -> str:
    """Join windows are windows with sequence numbers."""
    return f"kafka-streams.{_SPECIAL_FORMATS.get(kind, kind)}"


def losses(old_kind: str, kind: str) -> list[str]:
    """What must be allowed by name."""
    old, new = KINDS[old_kind], KINDS[kind]
    lost = {
        "loss:headers": old.headers and not new.headers,
        "loss:history": old.shape == "versioned" != new.shape,
        "loss:timestamp": old.timestamped and not new.timestamped,
    }
    return [name for name, is_lost in lost.items() if is_lost]
