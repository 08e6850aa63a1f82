"""Every kind of store that the real Kafka Streams makes, migrated to every other that makes sense, and opened again."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.live.kafka_streams import kinds
from tests.live.kafka_streams.kinds import KINDS, VERSIONED
from tests.live.kafka_streams.program import Verdict
from tests.live.migrating import Application, half_upgraded, migrate, pairs_of
from tests.support import read_families

MadeBy = Callable[[str], Application]
OpenedBy = Callable[[str], Verdict]

SINCE_MS = 1_699_999_000_000
"""Of the records of a plain store that becomes a versioned one."""

# (version that made it, version that opens it, what its stores become)
ACROSS = [
    ("3.9.1", "4.3.1", {"key-value-1": kinds.HEADERS_KEY_VALUE, "timestamped-window-1": kinds.HEADERS_WINDOW}),
    (
        "4.0.1",
        "4.3.1",
        {
            "key-value-1": kinds.KEY_VALUE,
            "timestamped-key-value-1": kinds.HEADERS_KEY_VALUE,
            "window-1": kinds.TIMESTAMPED_WINDOW,
            "timestamped-window-1": kinds.TIMESTAMPED_WINDOW,
            "join-window-1": kinds.HEADERS_JOIN_WINDOW,
            "session-1": kinds.HEADERS_SESSION,
            "versioned-1": kinds.VERSIONED,
        },
    ),
    (
        "4.3.1",
        "4.0.1",
        {
            "key-value-1": kinds.TIMESTAMPED_KEY_VALUE,
            "headers-key-value-1": kinds.TIMESTAMPED_KEY_VALUE,
            "timestamped-window-1": kinds.TIMESTAMPED_WINDOW,
            "headers-window-1": kinds.WINDOW,
            "headers-join-window-1": kinds.JOIN_WINDOW,
            "session-1": kinds.SESSION,
            "versioned-1": kinds.VERSIONED,
        },
    ),
    (
        "4.3.1",
        "3.9.1",
        {
            "key-value-1": kinds.KEY_VALUE,
            "headers-window-1": kinds.TIMESTAMPED_WINDOW,
            "headers-session-1": kinds.SESSION,
        },
    ),
]

# (version, what its own upgrade is on the way to, what the stores become then)
UPGRADES = [
    (
        "4.0.1",
        {
            "key-value-1": (kinds.TIMESTAMPED_KEY_VALUE, kinds.TIMESTAMPED_KEY_VALUE),
            "key-value-2": (kinds.TIMESTAMPED_KEY_VALUE, kinds.KEY_VALUE),
            "window-1": (kinds.TIMESTAMPED_WINDOW, kinds.WINDOW),
        },
    ),
    (
        "4.3.1",
        {
            "key-value-1": (kinds.HEADERS_KEY_VALUE, kinds.TIMESTAMPED_KEY_VALUE),
            "key-value-2": (kinds.TIMESTAMPED_KEY_VALUE, kinds.HEADERS_KEY_VALUE),
            "timestamped-key-value-1": (kinds.HEADERS_KEY_VALUE, kinds.HEADERS_KEY_VALUE),
            "window-1": (kinds.HEADERS_WINDOW, kinds.TIMESTAMPED_WINDOW),
            "timestamped-window-1": (kinds.HEADERS_WINDOW, kinds.HEADERS_WINDOW),
            "join-window-1": (kinds.HEADERS_JOIN_WINDOW, kinds.HEADERS_JOIN_WINDOW),
            "session-1": (kinds.HEADERS_SESSION, kinds.HEADERS_SESSION),
        },
    ),
]


def migrate_all(
    source: Application, folder: Path, new_kinds: Mapping[str, str], version: str | None = None
) -> Application:
    """One migration after the other, each from the state directory that the one before has published."""
    migrated = source
    for number, (store, kind) in enumerate(new_kinds.items()):
        conversion = {"default_timestamp_ms": SINCE_MS if kind == VERSIONED else -1}
        migrated, report = migrate(migrated, folder / str(number), store, kind, conversion=conversion, version=version)
        assert report.totals.rejected == 0
        if KINDS[source.kinds[store]].shape != "versioned":
            assert report.totals.records_out == migrated.records(store) > 200
    return migrated


def assert_as_before(verdict: Verdict, before: Verdict, migrated: Application, stores: Mapping[str, str]) -> None:
    """All records, and the changelog and the input read as far as before."""
    assert verdict.ok, verdict.difference
    for store in stores:
        assert verdict.records(store) == migrated.records(store)
        assert not verdict.upgrade_mode(store)
        for found, old in zip(verdict.stores(store), before.stores(store), strict=True):
            assert found.offset == old.offset
            if migrated.kinds[store] != VERSIONED or verdict.version != "4.3.1":  # which forgets it
                assert found.position == old.position


@pytest.mark.parametrize("version", ["3.9.1", "4.0.1", "4.3.1"])
def test_every_kind_becomes_every_other_that_makes_sense(
    version: str, made_by: MadeBy, opened_by: OpenedBy, tmp_path: Path
) -> None:
    made = made_by(version)
    new_kinds = {store: new for store, (_, new) in pairs_of(version).items()}
    before = opened_by(version)
    migrated = migrate_all(made, tmp_path, new_kinds)
    verdict = migrated.open(exactly_once=True)
    assert_as_before(verdict, before, migrated, new_kinds)
    for store in new_kinds:
        sources = [{found.offset_source for found in each.stores(store)} for each in (before, verdict)]
        assert sources[0] == sources[1] == {"offsets" if version == "4.3.1" else "checkpoint"}


@pytest.mark.parametrize(("old_version", "version", "new_kinds"), ACROSS)
def test_another_version_opens_what_was_migrated_for_it(
    old_version: str, version: str, new_kinds: dict[str, str], *, made_by: MadeBy, opened_by: OpenedBy, tmp_path: Path
) -> None:
    migrated = migrate_all(made_by(old_version), tmp_path, new_kinds, version.rpartition(".")[0])
    for store in new_kinds:
        for database in databases(migrated, store):
            assert "offsets" not in read_families(database)
    verdict = migrated.open(*new_kinds, version=version, exactly_once=True)
    assert_as_before(verdict, opened_by(old_version), migrated, new_kinds)
    assert {found.offset_source for store in new_kinds for found in verdict.stores(store)} == {"checkpoint"}


def databases(application: Application, store: str) -> list[Path]:
    """The store's RocksDB directories."""
    return [
        file.parent for file in application.path.rglob("CURRENT") if store in file.relative_to(application.path).parts
    ]


@pytest.mark.parametrize(("version", "upgrades"), UPGRADES)
def test_an_upgrade_that_kafka_streams_has_begun_is_finished(
    version: str, upgrades: dict[str, tuple[str, str]], made_by: MadeBy, tmp_path: Path
) -> None:
    half = half_upgraded(made_by(version), tmp_path, {store: kind for store, (kind, _) in upgrades.items()})
    before = half.open()
    assert before.ok, before.difference
    assert all(before.upgrade_mode(store) for store in upgrades)
    new_kinds = {store: kind for store, (_, kind) in upgrades.items()}
    migrated = migrate_all(half, tmp_path / "migrated", new_kinds)
    assert_as_before(migrated.open(), before, migrated, new_kinds)
