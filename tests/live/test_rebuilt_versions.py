"""What stands for a versioned store in its changelog rebuilds it in the real Kafka Streams."""

from pathlib import Path

import pytest

from formats import get_format
from formats.kafka_streams.versioned import default_segment_ms
from formats.record import Version
from migrate.engine.changelog_codec import ToChangelog, keyed_by_time, keyed_plainly
from migrate.engine.key_history import KeyHistory
from migrate.stores.batch import Batch, ChangelogBatch
from tests.live.kafka_streams.events import Event, random_events
from tests.live.kafka_streams.kinds import RETENTION_MS, VERSIONED
from tests.live.kafka_streams.make_vectors import stored_by
from tests.live.kafka_streams.program import require_live, write_more

FORM = get_format("kafka-streams.versioned")
SEGMENT_MS = default_segment_ms(RETENTION_MS)


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_versions_in_the_order_of_time_rebuild_every_entry(version: str, tmp_path: Path) -> None:
    require_live()
    events = random_events(VERSIONED, 400, seed=version)
    old = _written(version, tmp_path / "old", store=events)["store"]
    records = ToChangelog(FORM)(Batch([key for key, _ in old], [value for _, value in old]))
    by_time = _in_order(keyed_by_time(records))
    rebuilt = _written(version, tmp_path / "new", by_time=by_time, by_key=sorted(by_time, key=lambda each: each.key))
    assert rebuilt["by_time"] == old
    assert rebuilt["by_key"] != old


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_records_in_their_own_order_make_every_entry(version: str, tmp_path: Path) -> None:
    require_live()
    events = random_events(VERSIONED, 400, seed=version)
    stored = _written(version, tmp_path / "old", store=events)["store"]
    histories: dict[bytes, KeyHistory] = {}
    newest = -1
    for each in events:
        if each.timestamp >= newest - RETENTION_MS:
            newest = max(newest, each.timestamp)
            histories.setdefault(each.key, KeyHistory(SEGMENT_MS)).put(Version(each.timestamp, each.value))
    oldest = (newest - RETENTION_MS) // SEGMENT_MS
    made = [entry for key, each in histories.items() for entry in each.entries(FORM, key, oldest)]
    assert sorted(made) == stored


def _in_order(records: ChangelogBatch) -> list[Event]:
    """The last record of each key, in the order of the keys."""
    last = {key: at for at, key in enumerate(records.keys)}
    plain = keyed_plainly(records)
    return [Event(plain.keys[at], records.values[at], records.timestamps[at]) for _, at in sorted(last.items())]


def _written(version: str, folder: Path, **stores: list[Event]) -> dict[str, list[tuple[bytes, bytes]]]:
    """What is stored after these events."""
    kinds = dict.fromkeys(stores, VERSIONED)
    write_more(version, folder / "app", kinds=kinds, events={"0_0": stores}, retention_ms=RETENTION_MS)
    return {store: stored_by(folder / "app/0_0", store, VERSIONED) for store in stores}
