"""What `finalize` and `abandon` would remove, in a sentence for the question that comes before."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from migrate.batch.home import OLD
from migrate.batch.ledger.standing import read_standing
from migrate.batch.run_lock import pid_at_work
from migrate.batch.switch.finalize import FREED
from migrate.errors import MigrationError
from migrate.model.ledger_row import Step
from migrate.model.units import plural, size
from migrate.spec.spec import Spec
from migrate.stores.files import present


def removed_by_finalize(spec: Spec) -> str:
    """The sentence about `finalize`; empty where it would remove nothing, or is refused."""
    standing = read_standing(spec.home)
    freed = size(_freed(spec.home / name for name in FREED))
    if standing.step in (Step.CUT_OVER, Step.FINALIZING):
        stores = plural(len(standing.journal.exchanges), "store partition")
        return f"This removes the old stores of {stores}, {freed}, and ends the possibility of rollback."
    if standing.published is None or standing.step is not None:
        return ""
    return (
        f"This removes the snapshot and the working files, {freed}. The old state directory {spec.source_path} stays."
    )


def removed_by_abandon(spec: Spec) -> str:
    """The sentence about `abandon`; empty where it would remove nothing, or is refused."""
    home, stores = spec.home, ""
    with suppress(MigrationError):  # a migration that is damaged can be abandoned too
        standing = read_standing(home)
        if standing.is_in_use or (home / OLD).exists():
            return ""
        if assembled := standing.assembled:
            stores = f" with the new stores of {plural(len(assembled), 'store partition')}"
    if not home.is_dir() or pid_at_work(home):
        return ""
    return f"This removes {home}{stores}, {size(_freed([home]))}. The application's own stores stay as they are."


def _freed(folders: Iterable[Path]) -> int:
    """Bytes of the files below these folders that have no hard link elsewhere."""
    files = present(path for folder in folders for path in folder.rglob("*")).values()
    links = Counter((file.st_dev, file.st_ino) for file in files if stat.S_ISREG(file.st_mode))
    whole = {(file.st_dev, file.st_ino): file for file in files if links[file.st_dev, file.st_ino] == file.st_nlink}
    return sum(file.st_size for file in whole.values())
