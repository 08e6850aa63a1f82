"""Applications of the toy systems, which are registered for the time of a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from formats import FORMATS, likeness
from formats import registry as format_registry
from migrate.spec import allowed
from migrate.survey import databases, known_formats
from migrate.systems import SYSTEMS
from tests.support import make_families
from tests.systems.toys import INDEX, OFFSET_KEY, PLAIN, RECORDS, STAMPED, TOY_FORMATS, TOYS


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the registries of systems and of formats."""
    SYSTEMS[:0] = TOYS  # their directories look like those of real systems
    for known in TOY_FORMATS:
        monkeypatch.setitem(format_registry._BY_ID, known.id, known)
    for module in (format_registry, likeness, databases, known_formats, allowed):
        monkeypatch.setattr(module, "FORMATS", (*FORMATS, PLAIN, STAMPED))
    yield
    for system in TOYS:
        SYSTEMS.remove(system)


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """Two tables, one of them in two partitions."""
    path = tmp_path / "toy-app"
    for store, partition in (("counts", 0), ("counts", 1), ("other", 0)):
        records = RECORDS | {OFFSET_KEY: b"%d" % (41 + partition), b"__toy__made": b"today"}
        make_families(path / f"tables/{store}-{partition}.db", {"default": records, "index": INDEX})
    (path / "toy.properties").write_text("", encoding="utf-8")
    return path
