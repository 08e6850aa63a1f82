"""To open a RocksDB directory takes most of the time of planning a small store."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options

from migrate import run
from migrate.stores.rocksdb import database
from migrate.stores.rocksdb.view import View
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import copy_fixture, kafka_spec


def test_a_plan_opens_each_directory_and_its_snapshot_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Counter[Path] = Counter()
    open_rocksdb = database._open_rocksdb

    def counted(view: View, options: Options) -> Any:  # noqa: ANN401
        opened[view.directory] += 1
        return open_rocksdb(view, options)

    application = copy_fixture(tmp_path)
    spec = kafka_spec(tmp_path, application)
    monkeypatch.setattr(database, "_open_rocksdb", counted)
    with suppress(StoppedError):
        run(spec, on_event=StopAt("plan.stored"))
    snapshots = {path for path in opened if path.is_relative_to(spec.home)}
    assert {*opened.values()} == {1}
    assert len(snapshots) == len(opened) / 2 > 1
