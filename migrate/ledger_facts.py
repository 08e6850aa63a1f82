"""What the ledger's rows say of a migration."""

from __future__ import annotations

from pathlib import Path

from migrate.ledger_rows import Row, Step
from migrate.report_model import Verification


def assembled_folders(rows: list[Row], home: Path) -> dict[str, Path]:
    """What the ledger vouches for and is there."""
    rows = [row for row in rows if row.step is Step.ASSEMBLED]
    folders = {str(row.store_partition): home / str(row.facts["folder"]) for row in rows}
    return {partition: folder for partition, folder in folders.items() if folder.is_dir()}


def last_verification(rows: list[Row]) -> Verification | None:
    """What the ledger says of the last comparison."""
    found = [row for row in rows if row.step in (Step.VERIFIED, Step.MISMATCH)]
    return Verification.model_validate(found[-1].facts["verification"]) if found else None


def published_path(rows: list[Row]) -> Path | None:
    """Where the ledger says that the new directory was published."""
    published = [row for row in rows if row.step is Step.PUBLISHED]
    return Path(str(published[-1].facts["path"])) if published else None
