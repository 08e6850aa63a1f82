"""Side files: written in the work_dir and renamed over: the application meets neither half a file nor a foreign one."""

from __future__ import annotations

import shutil
from pathlib import Path

from migrate.batch.home import SIDE_FILE
from migrate.model.store_partition import ChangelogOffsets, StorePartition
from migrate.stores.files import keep_owner, write_synced
from migrate.systems import System


def write_positions(
    system: System, application: Path, partition: StorePartition, positions: ChangelogOffsets, work: Path
) -> set[Path]:
    """Say `positions` of this store partition in its side files; returns the folders that are to be synced.

    Those are to be synced where nothing was to be done as well: who did it may have been killed before.
    """
    texts = system.with_positions(application, partition, positions)
    for relative, text in texts.items():
        _replace(application / relative, text, work)
    return {(application / relative).parent for relative in texts}


def _replace(file: Path, text: str | None, work: Path) -> None:
    current = file.read_text(encoding="utf-8") if file.is_file() else None
    if text is None:
        file.unlink(missing_ok=True)
    elif text != current:
        temporary = work / SIDE_FILE
        write_synced(temporary, text.encode())
        if current is not None:
            shutil.copymode(file, temporary)
        keep_owner(file if current is not None else file.parent, temporary)
        temporary.replace(file)
