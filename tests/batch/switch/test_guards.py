"""What is looked at before anything is removed or said to be done, whatever the ledger believes."""

from pathlib import Path

import pytest

from migrate import Spec, cutover, load_spec, rollback, run
from tests.support import (
    KEY_VALUE,
    TIMESTAMPED,
    copy_fixture,
    flip_byte,
    make_spec,
    make_store,
    numbered,
    raw_spec,
    read_family,
)

STORES = {"stores": ["orders", "refunds"]}


def _in_place(base: Path, application: Path, **sections: object) -> Spec:
    sections = {"source": STORES, "target": {"path": None}, **sections}
    return make_spec(base, application, source_format=KEY_VALUE, target_format=TIMESTAMPED, **sections)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """Verified new stores of a real application, not cut over yet."""
    spec = _in_place(tmp_path, copy_fixture(tmp_path))
    run(spec)
    return spec


def test_the_way_back_does_not_ask_the_conversion(tmp_path: Path) -> None:
    """The function's module is gone, and so is the plan: rollback needs its journal and nothing else."""
    source = make_store(tmp_path / "old", numbered(100))
    (tmp_path / "shout.py").write_text("def convert(record):\n    return record\n")
    spec = raw_spec(tmp_path, source, target={"path": None}, conversion={"function": "shout:convert"})
    run(spec)
    cutover(spec)
    (tmp_path / "shout.py").unlink()
    next(spec.home.glob("plan-*.json")).unlink()
    assert rollback(spec).state == "rolled back"
    assert read_family(source) == numbered(100)


def test_damaged_chunk_files_are_made_again(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(3000))
    spec = raw_spec(tmp_path, source, run={"chunk_size": "16 KiB"})

    def stop(event: object) -> None:
        if getattr(event, "name", "") == "assemble.started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, on_event=stop)
    shorter, spoilt = sorted((spec.home / "chunks").rglob("*.sst"))[:2]
    shorter.write_bytes(shorter.read_bytes()[:100])
    flip_byte(spoilt, spoilt.stat().st_size - 1)
    report = run(spec)
    assert any(spoilt.parent.name in warning for warning in report.warnings)
    assert read_family(tmp_path / "new") == numbered(3000)


def test_a_spec_file_is_all_that_a_switch_needs(spec: Spec, tmp_path: Path) -> None:
    file = tmp_path / "migration.toml"
    file.write_text(
        'name = "test"\nwork_dir = "work"\n'
        f'[source]\nformat = "{KEY_VALUE}"\npath = "{spec.source_path}"\nstores = ["orders", "refunds"]\n'
        f'[target]\nformat = "{TIMESTAMPED}"\n'
    )
    assert cutover(load_spec(file)).state == "cut over"
    assert rollback(load_spec(file)).state == "rolled back"
