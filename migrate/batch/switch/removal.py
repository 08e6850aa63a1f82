"""What `finalize` and `abandon` would remove, in a sentence for the question that comes before."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from migrate.batch.changelog.broker.ownership import names_of_made
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.home import OLD
from migrate.batch.ledger.standing import read_standing
from migrate.batch.run_lock import pid_at_work
from migrate.batch.switch.finalize import FREED
from migrate.batch.switch.given_up import half_written
from migrate.errors import MigrationError
from migrate.model.journal import Journal
from migrate.model.ledger_row import Step
from migrate.model.units import plural, size
from migrate.spec.spec import Spec
from migrate.stores.files import present


def removed_by_finalize(spec: Spec, *, delete_topic: bool = False) -> str:
    """The sentence about `finalize`; empty where it would remove nothing, or is refused."""
    standing = read_standing(spec.home)
    freed, topics = size(_freed(spec.home / name for name in FREED)), ""
    if delete_topic and (written := ChangelogStanding(standing.rows).topics) is not None:
        old = ", ".join(dict.fromkeys(written.names.values()))
        topics = f" It deletes the old changelogs at the broker: {old}."
    if standing.step in (Step.CUT_OVER, Step.FINALIZING):
        return f"This {_after_cut_over(standing.journal, freed)}, and ends the possibility of rollback.{topics}"
    if standing.published is None or standing.step is not None:
        return topics.strip() if standing.step is Step.FINALIZED else ""
    return (
        f"This removes the snapshot and the working files, {freed}. The old state directory {spec.source_path} stays."
        f"{topics}"
    )


def _after_cut_over(journal: Journal, freed: str) -> str:
    stores = plural(len(journal.exchanges), "store partition")
    if any(entry.is_moved_in for entry in journal.exchanges):
        return f"removes the working files, {freed}, leaves the old stores of {stores} beside the new ones"
    return f"removes the old stores of {stores}, {freed}"


def removed_by_abandon(spec: Spec) -> str:
    """The sentence about `abandon`; empty where it would remove nothing, or is refused."""
    home, stores, topics = spec.home, "", ""
    with suppress(MigrationError):  # a migration that is damaged can be abandoned too
        standing = read_standing(home)
        if standing.is_in_use or (home / OLD).exists():
            return ""
        if assembled := standing.assembled:
            stores = f" with the new stores of {plural(len(assembled), 'store partition')}"
        topics = _topics_of(ChangelogStanding(standing.rows))
    if not home.is_dir() or pid_at_work(home):
        return ""
    return (
        f"This removes {home}{stores}, {size(_freed([home]))}.{topics} The application's own stores stay as they are."
    )


def _topics_of(written: ChangelogStanding) -> str:
    appended = half_written(written)
    if appended is not None:
        return f" It appends the old values again to {', '.join(appended.names)}."
    made = names_of_made(written)
    return f" It deletes the topics that were made for the new stores: {', '.join(made)}." if made else ""


def _freed(folders: Iterable[Path]) -> int:
    """Bytes of the files below these folders that have no hard link elsewhere."""
    files = present(path for folder in folders for path in folder.rglob("*")).values()
    links = Counter((file.st_dev, file.st_ino) for file in files if stat.S_ISREG(file.st_mode))
    whole = {(file.st_dev, file.st_ino): file for file in files if links[file.st_dev, file.st_ino] == file.st_nlink}
    return sum(file.st_size for file in whole.values())
