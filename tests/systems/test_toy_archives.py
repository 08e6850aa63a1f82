"""A toy system whose state lies in archives, one for each version, as Spark's does."""

import tempfile
import zipfile
from pathlib import Path

import pytest

from formats import Format
from migrate import RefusedError, Spec, inspect, plan, run, verify
from migrate.model.events import Event
from tests.support import make_families, make_spec, read_families, tree_state
from tests.systems.toys import PACKED, PACKED_STAMPED, RECORDS, stamped, version_of

pytestmark = pytest.mark.usefixtures("registered")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of two versions; the older one has other records, and lies there still."""
    path = tmp_path / "checkpoint"
    for name in ("toy.checkpoint", "commits/3", "commits/4"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(PACKED.id, encoding="utf-8")
    for partition in (0, 1):
        for version, records in ((4, {b"old": b"1"}), (5, RECORDS)):
            folder = path / f"state/counts/{partition}"
            make_families(tmp_path / "unpacked", {"default": records})
            _zip(tmp_path / "unpacked", folder / f"{version}.zip")
    (path / "state/counts/schema").write_text(str(path / "state/counts/schema"), encoding="utf-8")
    return path


def _zip(folder: Path, archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as packed:
        for file in sorted(folder.iterdir()):
            packed.write(file, file.name)
            file.unlink()
    folder.rmdir()


def state_of(checkpoint: Path, known: Format, scratch: Path) -> list[dict[bytes, bytes]]:
    """What an application has that is started with a checkpoint, by partition; it looks for its format and schema."""
    assert (checkpoint / "toy.checkpoint").read_text(encoding="utf-8") == known.id
    schema = checkpoint / "state/counts/schema"
    assert schema.read_text(encoding="utf-8") == str(schema)
    found = []
    for folder in sorted(each for each in (checkpoint / "state/counts").iterdir() if each.is_dir()):
        unpacked = Path(tempfile.mkdtemp(dir=scratch))
        with zipfile.ZipFile(folder / f"{version_of(checkpoint)}.zip") as archive:
            archive.extractall(unpacked)
        found.append(read_families(unpacked)["default"])
    return found


@pytest.fixture
def packed(tmp_path: Path, checkpoint: Path) -> Spec:
    """A new checkpoint is made of it."""
    sections: dict[str, object] = {"source": {"store": "counts"}, "target": {"path": "new"}}
    return make_spec(tmp_path, checkpoint, source_format=PACKED.id, target_format=PACKED_STAMPED.id, **sections)


def test_a_packed_store_is_planned_and_published(
    tmp_path: Path, packed: Spec, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "temporary").mkdir()
    before = tree_state(tmp_path)
    assert plan(packed, full=True).verdict.go
    assert list((tmp_path / "temporary").iterdir()) == []
    assert tree_state(tmp_path) | {"temporary": ()} == before | {"temporary": ()}
    run(packed)
    found = sorted(str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*.zip"))
    assert found == ["state/counts/0/5.zip", "state/counts/1/5.zip"]
    assert verify(packed).verification.ok
    assert run(packed).totals.records_in == 2 * len(RECORDS)


def test_an_application_cuts_over_to_the_new_checkpoint_and_back_to_the_old_one(
    tmp_path: Path, packed: Spec, checkpoint: Path
) -> None:
    before = tree_state(checkpoint)
    assert run(packed).verification.ok
    (tmp_path / "scratch").mkdir()
    assert state_of(tmp_path / "new", PACKED_STAMPED, tmp_path / "scratch") == [stamped(), stamped()]
    assert tree_state(checkpoint) == before
    assert state_of(checkpoint, PACKED, tmp_path / "scratch") == [dict(sorted(RECORDS.items()))] * 2


def test_a_run_on_a_packed_store_is_resumed_from_its_snapshot(packed: Spec) -> None:
    def interrupt(event: Event) -> None:
        if event.name == "assemble.started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(packed, on_event=interrupt)
    taken = (packed.home / "snapshot").stat().st_ino
    assert run(packed).verification.ok
    assert (packed.home / "snapshot").stat().st_ino == taken


@pytest.mark.parametrize("is_ours", [True, False])
def test_what_a_run_published_that_died_then_is_recognised_by_its_archives(
    tmp_path: Path, packed: Spec, *, is_ours: bool
) -> None:
    def interrupt(event: Event) -> None:
        if event.name == "publish.renamed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(packed, on_event=interrupt)
    if is_ours:
        assert run(packed).verification.ok
        return
    archive = tmp_path / "new/state/counts/1/5.zip"
    archive.rename(tmp_path / "ours.zip")
    archive.write_bytes((tmp_path / "ours.zip").read_bytes())
    with pytest.raises(RefusedError, match="exists already"):
        run(packed)


def test_a_packed_store_is_not_exchanged(tmp_path: Path, checkpoint: Path) -> None:
    sections: dict[str, object] = {"source": {"store": "counts"}, "target": {"path": None}}
    spec = make_spec(tmp_path, checkpoint, source_format=PACKED.id, target_format=PACKED_STAMPED.id, **sections)
    with pytest.raises(RefusedError, match=r"lies in the archive .*counts/0/5\.zip, which cannot be exchanged"):
        run(spec)
    assert any("counts/0/5.zip is an archive" in sentence for sentence in inspect(checkpoint).warnings)
