"""What is looked at before anything is removed or said to be done, whatever the ledger believes."""

from pathlib import Path

from migrate import cutover, rollback, run
from tests.support import (
    make_store,
    numbered,
    raw_spec,
    read_family,
)

STORES = {"stores": ["orders", "refunds"]}


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
