"""An application of the toy system, which is registered for the time of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from formats import FORMATS
from formats import registry as format_registry
from migrate.dry_run import sample_conversion
from migrate.spec import allowed
from migrate.survey import databases as likeness
from migrate.survey import known_formats
from migrate.systems import SYSTEMS
from tests.support import make_families
from tests.systems.toys import (
    BARE,
    INDEX,
    LOGGED,
    MOVING,
    MOVING_TOY,
    NEXT,
    NEXT_TOY,
    OFFSET_KEY,
    PACKED,
    PACKED_STAMPED,
    PACKED_TOY,
    PLAIN,
    RECORDS,
    STAMPED,
    TOY,
)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the registries of systems and of formats."""
    systems = [TOY, MOVING_TOY, NEXT_TOY, PACKED_TOY]
    SYSTEMS.extend(systems)
    for known in (PLAIN, STAMPED, LOGGED, BARE, MOVING, NEXT, PACKED, PACKED_STAMPED):
        monkeypatch.setitem(format_registry._BY_ID, known.id, known)
    for module in (format_registry, likeness, known_formats, allowed, sample_conversion):
        monkeypatch.setattr(module, "FORMATS", (*FORMATS, PLAIN, STAMPED))
    yield
    for system in systems:
        SYSTEMS.remove(system)


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """Two stores, one of them in two partitions."""
    path = tmp_path / "toy-app"
    for store, partition in (("counts", 0), ("counts", 1), ("other", 0)):
        records = RECORDS | {OFFSET_KEY: b"%d" % (41 + partition), b"__toy__made": b"today"}
        make_families(path / f"tables/{store}-{partition}.db", {"default": records, "index": INDEX})
    (path / "toy.properties").write_text("", encoding="utf-8")
    return path
