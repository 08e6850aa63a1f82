"""Which attempts may write to changelogs: those of one command, while it writes. Whatever lives on longer is kept out.

A command begins with a permit: a file that names the transactional ids of its tasks. Each attempt takes over its id,
and looks for the permit then. At the end the permit is withdrawn, and all ids are taken over: an attempt that has seen
the permit can write no more, and a later one does not find it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from migrate.batch.home import CHANGELOG
from migrate.kafka.cluster import Cluster
from migrate.stores.files import fsync_directory, make_directories, write_synced

_WRITING, _WITHDRAWN = "-writing.tmp", "-withdrawn.tmp"
_AT_ONCE = 8


def begin_writing(home: Path, transactional_ids: Iterable[str]) -> str:
    """A new permit, for tasks with these ids."""
    folder = home / CHANGELOG
    make_directories(folder)
    permit = folder / f"{uuid.uuid4().hex[:12]}{_WRITING}"
    write_synced(permit, "\n".join(transactional_ids).encode())
    fsync_directory(folder)
    return str(permit)


def end_writing(cluster: Cluster, home: Path) -> None:
    """Withdraw every permit, and take over its ids; those of commands that were killed, too.

    Raises the cluster's error where that fails: the next call goes on.
    """
    folder = home / CHANGELOG
    for permit in folder.glob(f"*{_WRITING}"):
        permit.rename(permit.with_name(permit.name.replace(_WRITING, _WITHDRAWN)))
    for withdrawn in folder.glob(f"*{_WITHDRAWN}"):
        fsync_directory(folder)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for _ in threads.map(cluster.abort_transactions, withdrawn.read_text(encoding="utf-8").splitlines()):
                pass
        withdrawn.unlink()
