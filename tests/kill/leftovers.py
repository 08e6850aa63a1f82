"""What may lie in a migration's folder once its commands have ended: exactly what docs/operations.md lists."""

import re
from collections.abc import Iterable
from pathlib import Path

from migrate.model.ledger_row import Row, Step
from migrate.model.receipt import Receipt

_ROCKSDB = r"(CURRENT|IDENTITY|MANIFEST-\d{6}|OPTIONS-\d{6}|\d{6}\.(log|sst|blob)|rocksdict-config\.json)"
_KEPT = (r"plan-\d{4}\.json", r"run\.lock", r"stateferry-folder\.json", r"ledger/.+", r"dead-letters/.+")
"""For ever: they say what was done."""


def leftovers(home: Path, rows: Iterable[Row], *, after: str) -> list[str]:
    """The files and directories below `home` that nothing accounts for; `rows` are the ledger's.

    `after` is the command that has ended. A directory is accounted for by something in it, or where it is to hold the
    new store once more.
    """
    rows = list(rows)
    patterns = [*_KEPT] if after == "finalize" else [*_KEPT, *_of_steps(rows, is_switched=after == "cutover")]
    if after == "snapshot":
        patterns.append(rf"snapshot/(.+/)?{_ROCKSDB}")
    allowed = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
    accounted = _parents(str(row.facts["folder"]) for row in rows if row.step is Step.ASSEMBLED and after == "cutover")
    directories, unknown = [], []
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home).as_posix()
        if path.is_dir() and not path.is_symlink():
            directories.append(name)
        elif allowed.fullmatch(name):
            accounted |= _parents([name])
        else:
            unknown.append(name)
    return [f"{name}/" for name in directories if name not in accounted] + unknown


def _parents(names: Iterable[str]) -> set[str]:
    return {parent.as_posix() for name in names for parent in Path(name).parents}


def _of_steps(rows: Iterable[Row], *, is_switched: bool) -> set[str]:
    """Snapshot, chunks and new stores, of the attempts that a row names; the old stores in the new ones' stead."""
    found = {r"snapshot/snapshot\.json"}
    for row in rows:
        if row.step is Step.CHUNK:
            receipt = Receipt.model_validate_json(row.detail)
            place = Path(receipt.store_partition, receipt.database).as_posix()
            found.add(rf"snapshot/{re.escape(receipt.store_partition)}/(.+/)?{_ROCKSDB}")
            attempt = rf"chunks/{re.escape(place)}/{re.escape(receipt.attempt)}"
            found.add(rf"{attempt}\.(\d+\.sst|receipt\.json|rejects\.parquet)")
        elif row.step is Step.ASSEMBLED:
            folder = f"old/{row.store_partition}" if is_switched else str(row.facts["folder"])
            found.add(rf"{re.escape(folder)}/(.+/)?({_ROCKSDB}|LOCK)")
    return found
