"""What holds records below the work_dir can be read by nobody who may not read the old store."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from migrate import Spec, cutover, rollback, run, snapshot
from migrate.model.events import Event
from tests.shared.modes import make_application, public_folder, read_by_others
from tests.support import kafka_spec

REJECTING: dict[str, object] = {
    "conversion": {"function": "tests.shared.conversions:picky", "allow": ["changelog", "unclean-source"]},
    "run": {"on_reject": "dead-letter", "max_reject_share": 0.5, "chunk_size": "32 KiB"},
}
IN_PLACE: dict[str, object] = {"target": {"path": None}}


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody gets into."""
    with public_folder() as made:
        yield made


class _Watch:
    """Looks at every event."""

    def __init__(self, base: Path, *, group: bool = False) -> None:
        self._base = base
        self._group = group
        self.seen: set[str] = set()

    def __call__(self, event: Event) -> None:
        self.seen.add(event.name)
        if not event.name.startswith("chunk."):
            assert read_by_others(self._base, group=self._group) == [], event.name


PRIVATE = pytest.mark.parametrize(
    ("directories", "files"), [(0o700, 0o600), (0o700, 0o644), (0o755, 0o600)], ids=["both", "directories", "files"]
)


@PRIVATE
def test_nobody_else_reads_the_records_of_a_private_store(public: Path, directories: int, files: int) -> None:
    spec = kafka_spec(public, make_application(public, directories=directories, files=files), **REJECTING)
    watch = _Watch(public)
    report = run(spec, on_event=watch)
    assert report.totals.rejected > 0
    assert report.dead_letters is not None
    assert {"assemble.committed", "publish.built", "publish.committed"} <= watch.seen
    assert read_by_others(public) == []
    assert read_by_others(public, group=True) == []
    assert any(spec.home.rglob("*.rejects.parquet"))


def test_nor_where_one_task_alone_is_private(public: Path) -> None:
    application = make_application(public, directories=0o755, files=0o644)
    (application / "0_1").chmod(0o750)
    spec = kafka_spec(public, application)
    run(spec)
    assert stat.S_IMODE(spec.home.stat().st_mode) == 0o750


def test_nor_where_the_way_to_the_store_is_private(public: Path) -> None:
    (public / "private").mkdir(mode=0o700)
    spec = kafka_spec(public, make_application(public / "private", directories=0o755, files=0o644), **IN_PLACE)
    run(spec, on_event=_Watch(public))
    assert stat.S_IMODE(spec.home.stat().st_mode) == 0o700


def test_a_store_for_everybody_leaves_the_folder_to_everybody(public: Path) -> None:
    spec = kafka_spec(public, make_application(public, directories=0o755, files=0o644))
    run(spec)
    assert stat.S_IMODE(spec.home.stat().st_mode) == 0o755


def test_a_switch_there_and_back_shows_nothing(public: Path) -> None:
    spec = kafka_spec(public, make_application(public, directories=0o700, files=0o600), **IN_PLACE)
    for verb in (run, cutover, rollback, cutover):
        verb(spec, on_event=_Watch(public))


def test_a_snapshot_is_as_private(public: Path) -> None:
    sections = {**IN_PLACE, "run": {"source": "snapshot", "snapshot": "copy"}}
    spec = kafka_spec(public, make_application(public, directories=0o700, files=0o644), **sections)
    snapshot(spec, on_event=_Watch(public))
    assert stat.S_IMODE(spec.home.stat().st_mode) == 0o700


def test_a_folder_that_was_there_is_closed(public: Path) -> None:
    spec = kafka_spec(public, make_application(public, directories=0o700, files=0o600), **IN_PLACE)
    spec.home.mkdir(parents=True, mode=0o777)
    run(spec)
    assert stat.S_IMODE(spec.home.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_root_gives_the_folder_to_the_owner_of_the_store(public: Path) -> None:
    application = make_application(public, directories=0o750, files=0o640)
    for path in (application, *application.rglob("*")):
        os.chown(path, 1234, 5678)
    spec = kafka_spec(public, application)
    run(spec)
    status = spec.home.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 5678, 0o750)


def test_while_a_directory_is_built_beside_the_target_nobody_looks_into_it(public: Path) -> None:
    application = make_application(public, directories=0o755, files=0o644)
    (application / "0_0" / "rocksdb").chmod(0o700)
    spec = kafka_spec(public, application)
    built = _Built(spec)
    sys.addaudithook(built.hook)
    try:
        run(spec)
    finally:
        built.is_over = True
    assert built.modes == {0o700}
    assert stat.S_IMODE((public / "new/orders-app").stat().st_mode) == 0o755


class _Built:
    """The modes of the directory that is built, whenever a file is linked or copied into it."""

    def __init__(self, spec: Spec) -> None:
        self._folder = spec.base_dir / "new"
        self.modes: set[int] = set()
        self.is_over = False

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if (
            not self.is_over
            and event in ("os.link", "shutil.copyfile")
            and ".orders-app.stateferry-" in str(arguments[1])
        ):
            self.modes |= {stat.S_IMODE(path.stat().st_mode) for path in self._folder.glob(".orders-app.stateferry-*")}
