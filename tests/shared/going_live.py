"""Migrations that something holds back from going live, and what is told of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import Spec, StatusReport, VerificationError, report, run, status
from migrate.model.events import Event
from tests.support import make_store, numbered, open_store, raw_spec, read_ledger

RECORDS = numbered(400)
REJECTED = 4
"""Every hundredth."""


def in_place(base: Path, **sections: object) -> Spec:
    return published(base, **{"target": {"path": None}, **sections})


def published(base: Path, **sections: object) -> Spec:
    if not (base / "old").exists():
        make_store(base / "old", RECORDS)
    return raw_spec(base, base / "old", **sections)


Make = Callable[..., Spec]
BOTH = pytest.mark.parametrize("make", [in_place, published], ids=["in place", "published"])


def picky(make: Make, base: Path, **how: object) -> Spec:
    (base / "picky.py").write_text(
        "def convert(record):\n"
        "    if record.key.endswith(b'50'):\n        raise ValueError('unlucky')\n"
        "    return record\n"
    )
    run_section = {"chunk_size": "2 KiB", "on_reject": "dead-letter", **how}
    return make(base, conversion={"function": "picky:convert"}, run=run_section)


def slot(spec: Spec) -> Path:
    """Where the newest new store stands."""
    rows = [row for row in read_ledger(spec.home) if row.step == "assembled"]
    return spec.home / str(rows[-1].facts["folder"])


def spoil(event: Event) -> None:
    """A new store that was assembled wrongly."""
    if event.name == "assemble.ingested":
        change(event.facts["folder"])


def change(store: Path) -> None:
    with open_store(store) as database:
        database[b"extra"] = b"record"


def steps(spec: Spec) -> list[str]:
    return [str(row.step) for row in read_ledger(spec.home) if row.step not in ("run", "chunk", "assembled")]


def kinds(spec: Spec) -> dict[str, str]:
    """Of what `status` and `report` tell alike: what accepted it."""
    told: StatusReport = status(spec)
    assert report(spec).concerns == told.concerns
    return {concern.kind: concern.accepted for concern in told.concerns}


def found_wrong(make: Make, base: Path, mode: str) -> None:
    with pytest.raises(VerificationError, match="1 extra"):
        run(make(base, run={"verify": mode}), on_event=spoil)
