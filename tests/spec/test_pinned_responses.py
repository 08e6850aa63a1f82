"""A migration that was begun converts by the schemas that it was begun with, and needs no registry any more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from migrate import InterruptedMigrationError, RefusedError, Spec, cutover, plan, rollback, run, verify
from migrate.errors import RegistryError
from migrate.model.events import Event
from tests.shared.registry_server import Registry, Version, serving
from tests.support import KEY_VALUE, make_spec, make_store, read_family

OLD = '{"type":"record","name":"Order","fields":[{"name":"a","type":"int"}]}'
NEW = OLD.replace("}]", '},{"name":"b","type":"int","default":1}]')
RECORDS = {b"key-%05d" % number: b"\0\0\0\0\1" + bytes([2 * (number % 60)]) for number in range(3000)}
CONVERTED = {key: b"\0\0\0\0\7" + value[5:] + b"\2" for key, value in RECORDS.items()}
OF_LATER = b"\0\0\0\0\2\2"
"""Written by a schema that the registry has not had yet."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry({"orders-value": [Version(1, OLD)]})) as started:
        yield started


def _spec(folder: Path, registry: Registry, /, **run_section: Any) -> Spec:  # noqa: ANN401
    (folder / "new.avsc").write_text(NEW, encoding="utf-8")
    old = {"serde": "avro", "frame": "confluent", "registry": registry.url, "subject": "orders-value"}
    new = {"serde": "avro", "frame": "confluent", "id": 7, "schema": "new.avsc"}
    return make_spec(
        folder,
        folder / "app",
        source_format=KEY_VALUE,
        target_format=KEY_VALUE,
        source={"store": "orders"},
        target={"path": None},
        conversion={"allow": ["changelog", "unclean-source"], "value": {"from": old, "to": new}},
        run={"chunk_size": "16 KiB", **run_section},
    )


def _store(folder: Path, records: dict[bytes, bytes]) -> Path:
    store = make_store(folder / "app/0_0/rocksdb/orders", records)
    (folder / "app/0_0/.checkpoint").write_text("0\n1\napp-orders-changelog 0 7\n", encoding="utf-8")
    return store


def _stop_after_the_first_chunk(event: Event) -> None:
    if event.name == "chunk.committed":
        raise InterruptedMigrationError("enough")


def test_a_resume_and_all_that_follows_ask_nobody(tmp_path: Path, registry: Registry) -> None:
    store = _store(tmp_path, RECORDS)
    spec = _spec(tmp_path, registry)
    with pytest.raises(InterruptedMigrationError):
        run(spec, on_event=_stop_after_the_first_chunk)
    registry.asked.clear()
    run(spec)
    verify(spec)
    cutover(spec)
    assert read_family(store) == CONVERTED
    rollback(spec)
    plan(spec)
    assert registry.asked == []


def test_before_it_has_begun_the_registry_is_asked(tmp_path: Path, registry: Registry) -> None:
    _store(tmp_path, RECORDS)
    spec = _spec(tmp_path, registry)
    plan(spec)
    registry.asked.clear()
    plan(spec)
    assert registry.asked
    registry.subjects.clear()
    with pytest.raises(RegistryError, match="orders-value"):
        run(spec)


def test_a_version_that_comes_later_changes_no_verification(tmp_path: Path, registry: Registry) -> None:
    store = _store(tmp_path, RECORDS | {b"zzz": OF_LATER})
    spec = _spec(tmp_path, registry, on_reject="skip", max_rejects=1)
    run(spec)
    registry.subjects["orders-value"].append(Version(2, OLD))
    verify(spec)
    cutover(spec)
    assert read_family(store) == CONVERTED


def test_a_damaged_file_of_responses_is_named(tmp_path: Path, registry: Registry) -> None:
    _store(tmp_path, RECORDS)
    spec = _spec(tmp_path, registry)
    run(spec)
    (spec.home / "registry-answers.json").write_text("[1", encoding="utf-8")
    with pytest.raises(RefusedError, match=r"registry-answers\.json is damaged"):
        verify(spec)
