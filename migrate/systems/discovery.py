"""Finding the store partitions in an application's directory; what is there instead, where they are not."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from migrate.errors import RefusedError
from migrate.store_partition import StorePartition
from migrate.stores.layout import is_rocksdb, unreadable
from migrate.systems.task_tree import KEY_VALUE_STORES, TaskTree

_KINDS = {False: "key-value", True: "windowed or session"}


def find_partitions(
    tree: TaskTree, path: Path, stores: Sequence[str], *, is_segmented: bool, path_hint: str
) -> list[StorePartition]:
    """The store partitions of these stores, ordered by store and task; a windowed one's RocksDB directories are its
    segments, and what else its owner would take for one.

    `path_hint`: what [source] path should name. Raises RefusedError.
    """
    if not path.is_dir():
        raise RefusedError(f"{path} {'is not a directory' if path.exists() else 'does not exist'}", hint=path_hint)
    try:
        tasks = list(tree.task_directories(path))
        found = [
            _partition(tree, path, task, store, is_segmented=is_segmented)
            for store in stores
            for task in tasks
            if (path / tree.place(str(task.relative_to(path)), store, is_segmented=is_segmented)).is_dir()
        ]  # whatever is in it: a directory that lost its files is no less a loss
        missing = [store for store in stores if store not in {partition.store for partition in found}]
        if missing and not tasks:
            raise _no_tasks(tree, path, path_hint)
        if missing:
            raise _not_there(tree, path, missing[0], tasks, is_segmented=is_segmented)
    except PermissionError as error:
        raise unreadable(Path(error.filename)) from error
    return found


def _partition(tree: TaskTree, path: Path, task: Path, store: str, *, is_segmented: bool) -> StorePartition:
    name = str(task.relative_to(path))
    place = tree.place(name, store, is_segmented=is_segmented)
    partition = StorePartition(id=f"{name}/{store}", store=store, task=name, path=place)
    if not is_segmented:
        return partition
    entries = (entry for entry in (path / place).iterdir() if tree.lists_files or entry.is_dir())
    return partition.model_copy(update={"databases": tuple(sorted(entry.name for entry in entries))})


def _no_tasks(tree: TaskTree, path: Path, path_hint: str) -> RefusedError:
    near = next((folder for folder in (*path.parents[:3], *path.iterdir()) if _holds_tasks(tree, folder)), None)
    hint = path_hint if near is None else f"{path_hint}: did you mean '{near}'?"
    if is_rocksdb(path):
        return RefusedError(f"{path} is a RocksDB directory", hint=f"leave `store` out to migrate it alone, or {hint}")
    if tree.task.fullmatch(path.name):
        return RefusedError(f"{path} is a task directory, of one task alone", hint=hint)
    names = ", ".join(sorted(entry.name for entry in path.iterdir())[:8])
    there = f"there are: {names}" if names else "it is empty"
    return RefusedError(f"{path} holds no task directory (like {tree.task_name((0, 0))}); {there}", hint=hint)


def _holds_tasks(tree: TaskTree, folder: Path) -> bool:
    try:
        return folder.is_dir() and any(tree.task.fullmatch(entry.name) for entry in folder.iterdir())
    except PermissionError:
        return False


def store_names(tree: TaskTree, tasks: Sequence[Path]) -> dict[bool, list[str]]:
    """The stores of these tasks: the key-value ones (False), and those of segments (True)."""
    return {
        False: sorted({f.name for task in tasks for f in (task / KEY_VALUE_STORES).glob("*") if is_rocksdb(f)}),
        True: sorted({f.name for task in tasks for f in task.iterdir() if f.is_dir() and tree.segments(f)}),
    }


def _not_there(tree: TaskTree, path: Path, store: str, tasks: list[Path], *, is_segmented: bool) -> RefusedError:
    stores = store_names(tree, tasks)
    if store in stores[not is_segmented]:
        return RefusedError(
            f"{store!r} is a {_KINDS[not is_segmented]} store", hint="name its format in [source] format"
        )
    near = get_close_matches(store, stores[is_segmented], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return RefusedError(
        f"no {_KINDS[is_segmented]} store {store!r} in {path}",
        hint=f"{hint}there are: {', '.join(stores[is_segmented]) or 'none'}",
    )
