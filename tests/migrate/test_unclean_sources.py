"""What an application that did not stop cleanly leaves behind, and what a migration makes of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from migrate import RefusedError, Spec, run
from migrate.spec import parse_spec

STATE = Path(__file__).resolve().parents[1] / "fixtures/kafka-streams-4.0.1/orders-app"

Damage = Callable[[Path], None]


def without_checkpoint(app: Path) -> None:
    (app / "0_1/.checkpoint").unlink()


def with_unknown_offset(app: Path) -> None:
    checkpoint = app / "0_1/.checkpoint"
    *head, last = checkpoint.read_text().splitlines()
    checkpoint.write_text("\n".join([*head, " ".join([*last.split()[:2], "-4"])]) + "\n")


def with_status_open(app: Path) -> None:
    directory = str(app / "0_1/rocksdb/orders")
    options = Options(raw_mode=True)
    options.create_missing_column_families(True)
    store = Rdict(directory, options, column_families={"default": options, "offsets": options})
    store.get_column_family("offsets")[b"status"] = (1).to_bytes(8, "big")
    store.close()


def spec_in(folder: Path, **conversion: object) -> Spec:
    content = {
        "name": "orders",
        "work_dir": "work",
        "source": {"format": "kafka-streams.key-value", "path": "orders-app", "store": "orders"},
        "target": {"format": "kafka-streams.timestamped-key-value", "path": "new/orders-app"},
        "conversion": conversion,
    }
    return parse_spec(content, base_dir=folder)


CASES = [(without_checkpoint, "did not stop cleanly"), (with_unknown_offset, "unknown"), (with_status_open, "status")]


@pytest.mark.parametrize(("damage", "said"), CASES)
def test_it_is_said_and_carried_as_it_is(damage: Damage, said: str, tmp_path: Path) -> None:
    shutil.copytree(STATE, tmp_path / "orders-app")
    damage(tmp_path / "orders-app")

    report = run(spec_in(tmp_path))

    (warning,) = report.warnings
    assert "0_1" in warning
    assert said in warning
    old, new = tmp_path / "orders-app/0_1/.checkpoint", tmp_path / "new/orders-app/0_1/.checkpoint"
    assert new.exists() == old.exists()
    assert not old.exists() or new.read_bytes() == old.read_bytes()


@pytest.mark.parametrize(("damage", "said"), CASES)
def test_it_is_refused_where_the_changelog_would_bring_old_records_back(
    damage: Damage, said: str, tmp_path: Path
) -> None:
    shutil.copytree(STATE, tmp_path / "orders-app")
    damage(tmp_path / "orders-app")
    (tmp_path / "upper_case.py").write_text(
        "from dataclasses import replace\n\n"
        "def convert(record):\n    return replace(record, value=record.value.upper())\n"
    )
    function = {"function": "upper_case:convert"}

    with pytest.raises(RefusedError, match=said) as refused:
        run(spec_in(tmp_path, **function, allow=["changelog"]))
    assert "unclean-source" in refused.value.hint
    assert not (tmp_path / "work").exists()

    assert run(spec_in(tmp_path, **function, allow=["changelog", "unclean-source"])).state == "published"


def test_a_table_format_that_is_too_new_is_refused(tmp_path: Path) -> None:
    shutil.copytree(STATE, tmp_path / "orders-app")
    directory = tmp_path / "orders-app/0_0/rocksdb/orders"
    newest = sorted(directory.glob("OPTIONS-*"))[-1]
    newest.write_text(newest.read_text().replace("format_version=6", "format_version=7"))

    with pytest.raises(RefusedError, match="table format version 7"):
        run(spec_in(tmp_path))
