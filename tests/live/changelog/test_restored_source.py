"""An application whose disk is lost goes on with a store that was made from its changelog alone."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from migrate import restore, run
from migrate.spec.spec import Spec
from tests.live.changelog.app import Program
from tests.live.changelog.migrating import assert_finds, make_state, some_inputs
from tests.live.changelog.model import rows_after
from tests.support import read_families


@pytest.mark.parametrize(
    ("version", "exactly_once", "kind"),
    [
        ("4.3.1", True, "timestamped-key-value"),
        ("4.0.1", False, "key-value"),
        ("4.0.1", True, "timestamped-window"),
        ("4.3.1", False, "headers-key-value"),
    ],
)
def test_a_lost_disk_comes_back(old: Program, version: str, exactly_once: bool, kind: str) -> None:
    inputs = some_inputs(2000, 1500)
    old = make_state(replace(old, version=version, exactly_once=exactly_once, kind=kind), inputs)
    lost = shutil.move(old.folder, old.folder.with_name("lost"))
    expected = rows_after(kind, inputs)
    spec = _spec(old)
    report = restore(spec)
    assert report.keys == len(expected)
    assert _records(spec.source_path) == _records(Path(lost))
    run(spec)
    back = replace(old, state_dir=old.state_dir.with_name("back"))
    assert_finds(back, expected, restored=0)
    assert_finds(back.elsewhere(), expected, restored=None)


def _records(application: Path) -> dict[bytes, bytes]:
    """All records of all tasks, without the system's own family."""
    found: dict[bytes, bytes] = {}
    for file in application.rglob("CURRENT"):
        families = read_families(file.parent)
        for name in families.keys() - {"offsets"}:
            found |= families[name]
    return found


def _spec(old: Program) -> Spec:
    retention = {"retention_ms": old.retention_ms} if "window" in old.kind else {}
    source = {"format": f"kafka-streams.{old.kind}", "store": old.store, "changelog": True, "subtopology": 0}
    return Spec(
        name="lost",
        work_dir=old.state_dir.parent / "work",
        source={**source, **retention},
        target={"format": f"kafka-streams.{old.kind}", "path": old.state_dir.with_name("back") / old.application_id},
        changelog={"bootstrap": old.bootstrap, "application_id": old.application_id},
    )
