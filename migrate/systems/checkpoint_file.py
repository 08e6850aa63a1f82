"""`.checkpoint` of Kafka Streams and Streamiz: one line for each topic partition, under two of heading.

    0                                      version
    2                                      how many lines follow
    orders-app-orders-changelog 0 2350     topic, partition, offset

The offset for a changelog whose records up to 41 were applied:

| system               | offset                   |
|----------------------|--------------------------|
| Kafka Streams        | 41, the last one applied |
| Streamiz since 1.7   | 42, the next one         |
| Streamiz before that | 41, the last one applied |

Every version of Streamiz restores from the offset that it finds, so it is taken for the next one: to apply a record
again does no harm, to leave one out does. In `global` it is the other way round; those lines are never a store's own.

`<store>.position` of Kafka Streams has the same form. Line ends of every kind are read.

Source: org.apache.kafka.streams.state.internals.OffsetCheckpoint, org.apache.kafka.streams.processor.internals
ProcessorStateManager, GlobalStateManagerImpl; Streamiz.Kafka.Net.State.OffsetCheckpointFile,
Streamiz.Kafka.Net.Processors.Internal ProcessorStateManager, StoreChangelogReader, GlobalStateManager.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from migrate.errors import RefusedError
from migrate.model.store_partition import Line, StorePartition
from migrate.stores.regular_files import read_regular
from migrate.systems.base import ChangelogNames, System

CHECKPOINT = ".checkpoint"
RECOVERY = ".checkpoint.rec"
"""Streamiz' copy of the file as it was before."""
OFFSET_UNKNOWN = -4


def read_checkpoint(file: Path, *, owner: str = "Kafka Streams") -> list[Line]:
    """(topic, partition, offset) of each line. Raises RefusedError where the file is damaged."""
    restore = f"restore it from a backup, or remove it to let {owner} replay the changelog"
    hint = f"the file is damaged: {restore}"
    try:
        version, count, *lines = read_regular(file).decode().splitlines()
        if version.strip().isdecimal() and int(version) > 0:
            raise RefusedError(
                f"{file} is a checkpoint of version {version.strip()}, and only version 0 is known",
                hint=f"if a newer {owner} wrote it, use a newer Stateferry; else {restore}",
            )
        if version.strip() != "0" or int(count) != len(lines):
            raise RefusedError(f"{file} is not a checkpoint of version 0 with {count} lines", hint=hint)
        return [(topic, int(number), int(offset)) for topic, number, offset in (line.split() for line in lines)]
    except ValueError as error:
        raise RefusedError(f"{file} is not a checkpoint file: {error}", hint=hint) from error


def read_position_file(file: Path) -> str:
    """The text of a `<store>.position`, which is carried over as it is. Raises RefusedError where it is damaged."""
    try:
        return read_regular(file).decode()
    except UnicodeDecodeError as error:
        raise RefusedError(
            f"{file} is not a position file: {error}",
            hint="the file is damaged: restore it from a backup, or remove it: only interactive queries use it",
        ) from error


def parse_position(text: str | None) -> dict[tuple[str, int], int]:
    """By (topic, partition), the offsets in the text of a `<store>.position`; none where it is not one."""
    with suppress(ValueError):
        lines = (line.split() for line in (text or "").splitlines()[2:])
        return {(topic, int(number)): int(offset) for topic, number, offset in lines}
    return {}


def format_checkpoint(lines: Sequence[Line]) -> str:
    """The text of a file with these lines."""
    return "\n".join(["0", str(len(lines)), *(f"{topic} {number} {offset}" for topic, number, offset in lines), ""])


def stores_of_topics(topics: Sequence[str], changelogs: Mapping[str, str]) -> list[str | None]:
    """The store that each topic of a task is the changelog of; None: no store here (a source topic may serve as one).

    `changelogs`: the usual topic of each store. Another prefix may be configured: a topic that ends like a store's is
    that store's, unless the store has its line under the usual name.
    """
    names = sorted(changelogs, key=len, reverse=True)
    usual = {changelogs[name]: name for name in names}
    named = {usual[topic] for topic in topics if topic in usual}
    return [usual.get(topic) or _by_ending(topic, [name for name in names if name not in named]) for topic in topics]


def lines_of_store(
    names: ChangelogNames, path: Path, partition: StorePartition, lines: Sequence[Line], application: str | None = None
) -> list[bool]:
    """Which lines of a task's `.checkpoint`, in the application's directory `path`, are this store's.

    `application`: its name, where the directory has a temporary one.
    """
    if not lines:
        return []
    stores = _stores_in(path / partition.task) | {partition.store}
    named = application or path.name
    changelogs = {store: names.topic(named, partition.model_copy(update={"store": store})) for store in stores}
    owners = stores_of_topics([topic for topic, _, _ in lines], changelogs)
    return [owner == partition.store for owner in owners]


def changelogs_in(task: Path, topics: Iterable[str], likely: str) -> list[tuple[str, str]]:
    """Each of these topics that ends like the changelog of a store in the task's directory, and how it begins.

    `likely`: how it begins where several stores' names fit.
    """
    names = sorted(_stores_in(task), key=len, reverse=True)
    own = {f"{likely}-{name}-changelog": name for name in names}
    owners = ((topic, own.get(topic) or _by_ending(topic, names)) for topic in topics)
    return [(topic, topic.removesuffix(f"-{owner}-changelog")) for topic, owner in owners if owner is not None]


def _stores_in(task: Path) -> set[str]:
    """The names of the stores in a task's directory, and of other directories there."""
    return (_folders(task) - {"rocksdb"}) | _folders(task / "rocksdb")


def _folders(folder: Path) -> set[str]:
    """The names of the directories in one, and of links to directories."""
    with suppress(OSError), os.scandir(folder) as entries:
        return {entry.name for entry in entries if entry.is_dir()}
    return set()


def _by_ending(topic: str, names: Sequence[str]) -> str | None:
    return next((name for name in names if topic.endswith(f"-{name}-changelog")), None)


def replace_lines(lines: Sequence[Line], mine: Sequence[Line], is_mine: Iterable[bool]) -> list[Line]:
    """`lines` with one store's replaced in place by `mine`, its new ones at the end, all others unchanged."""
    left = {(topic, number): offset for topic, number, offset in mine}
    merged: list[Line] = []
    for line, own in zip(lines, is_mine, strict=True):
        if not own:
            merged.append(line)
        elif line[:2] in left:
            merged.append((*line[:2], left.pop(line[:2])))
    return merged + [(topic, number, offset) for (topic, number), offset in left.items()]


def translate_lines(lines: Iterable[Line], source: System, target: System) -> tuple[Line, ...]:
    """A store's lines, by which `target` restores from where `source` would have.

    An unknown offset stays one, and one before the first record becomes one: the whole changelog is restored.
    """
    shift = target.offsets.ahead - source.offsets.ahead
    return tuple(
        (topic, number, offset + shift if min(offset, offset + shift) >= 0 else OFFSET_UNKNOWN)
        for topic, number, offset in lines
    )
