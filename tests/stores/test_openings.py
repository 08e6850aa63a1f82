"""How often RocksDB directories are opened: to open one costs time for each column family and file in it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from migrate import run
from migrate.errors import RefusedError
from migrate.stores.rocksdb.openings import keeping_open, open_to_read
from tests.support import make_families, make_store, numbered, raw_spec, read_families


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A name for each opening: a directory of links is made for it."""
    made: list[str] = []
    make = tempfile.mkdtemp

    def counted(*arguments: Any, **options: Any) -> str:  # noqa: ANN401 - whatever it takes
        made.append(make(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", counted)
    return made


@pytest.mark.parametrize("verify", ["full", "digest"])
def test_more_column_families_take_no_more_openings(tmp_path: Path, views: list[str], verify: str) -> None:
    openings = []
    for count in (2, 12):
        folder = tmp_path / str(count)
        families = {"default": numbered(20), **{f"family-{number}": numbered(20) for number in range(count)}}
        source = make_families(folder / "old", families)
        views.clear()
        run(raw_spec(folder, source, run={"verify": verify}))
        openings.append(len(views))
        assert read_families(folder / "new") == families

    assert openings[0] == openings[1]
    assert not [view for view in views if Path(view).exists()]


def test_what_is_kept_is_closed_in_the_end_and_after_an_error(tmp_path: Path, views: list[str]) -> None:
    directory = make_store(tmp_path / "old", numbered(10))

    with keeping_open():
        with open_to_read(directory) as first:
            pass
        with open_to_read(directory) as second, open_to_read(directory) as third:
            assert second is first
            assert third is not first  # no two tasks have the same
        with pytest.raises(RefusedError), open_to_read(directory):
            raise RefusedError("the task failed")
        assert len([view for view in views if Path(view).exists()]) <= 1
    assert not [view for view in views if Path(view).exists()]


def test_nothing_is_kept_without_users(tmp_path: Path, views: list[str]) -> None:
    with open_to_read(make_store(tmp_path / "old", numbered(10))):
        pass

    assert [Path(view).exists() for view in views] == [False]
