"""A toy system whose stores lie in archives."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from migrate import (
    RefusedError,
    Spec,
    inspect,
    plan,
    run,
    verify,
)
from migrate.model.events import Event
from tests.support import make_spec, read_families, tree_state
from tests.systems.toys import (
    PACKED,
    PACKED_STAMPED,
    RECORDS,
    expected,
)

pytestmark = pytest.mark.usefixtures("registered")


@pytest.fixture
def packed(tmp_path: Path, application: Path) -> Spec:
    """Its stores are packed, and a new directory is made of them."""
    for folder in sorted((application / "tables").iterdir()):
        shutil.make_archive(str(folder), "zip", folder)
        shutil.rmtree(folder)
    sections: dict[str, object] = {"source": {"store": "counts"}, "target": {"path": "new"}}
    return make_spec(tmp_path, application, source_format=PACKED.id, target_format=PACKED_STAMPED.id, **sections)


def test_a_packed_store_is_planned_and_published(tmp_path: Path, packed: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "temporary").mkdir()
    before = tree_state(tmp_path)
    assert plan(packed, full=True).verdict.go
    assert list((tmp_path / "temporary").iterdir()) == []
    assert tree_state(tmp_path) | {"temporary": ()} == before | {"temporary": ()}
    run(packed)
    assert read_families(tmp_path / "new/tables/counts-1.db") == expected(1)
    assert {path.name for path in (tmp_path / "new/tables").iterdir()} == {
        "counts-0.db",
        "counts-1.db",
        "other-0.db.zip",
    }
    assert verify(packed).verification.ok
    assert run(packed).totals.records_in == 2 * len(RECORDS) + 4


def test_a_run_on_a_packed_store_is_resumed_from_its_snapshot(packed: Spec) -> None:
    def interrupt(event: Event) -> None:
        if event.name == "assemble.started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(packed, on_event=interrupt)
    taken = (packed.home / "snapshot").stat().st_ino
    assert run(packed).verification.ok
    assert (packed.home / "snapshot").stat().st_ino == taken


def test_a_packed_store_is_not_exchanged(tmp_path: Path, application: Path, packed: Spec) -> None:
    sections: dict[str, object] = {"source": {"store": "counts"}, "target": {"path": None}}
    spec = make_spec(tmp_path, application, source_format=PACKED.id, target_format=PACKED_STAMPED.id, **sections)
    with pytest.raises(RefusedError, match=r"lies in the archive .*counts-0\.db\.zip, which cannot be exchanged"):
        run(spec)
    assert any("counts-0.db.zip is an archive" in sentence for sentence in inspect(application).warnings)
