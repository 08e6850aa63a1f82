"""A file between being written and being durable, as two flags: its data, and its name in the directory."""

from enum import StrEnum
from typing import NamedTuple


class Kept(StrEnum):
    """How far the disk has something."""

    __hash__ = str.__hash__  # the enumeration's own is slow, and states are hashed all the time

    CACHED = "cached"
    DURABLE = "durable"
    TORN = "torn"
    UNLINKED = "unlinked"
    """A name that was removed; a power cut may bring it back."""


class File(NamedTuple):
    """A file that has, or had, a name. None stands for a file that never was, or is gone for good."""

    data: Kept
    name: Kept

    @property
    def is_durable(self) -> bool:
        return self == DURABLE


WRITTEN = File(Kept.CACHED, Kept.CACHED)
SYNCED = File(Kept.DURABLE, Kept.CACHED)
DURABLE = File(Kept.DURABLE, Kept.DURABLE)
TORN = File(Kept.TORN, Kept.DURABLE)


def is_visible(file: File | None) -> bool:
    return file is not None and file.name is not Kept.UNLINKED


def is_whole(file: File | None) -> bool:
    """What a reader sees as a whole file, durable or not."""
    return file is not None and is_visible(file) and file.data is not Kept.TORN


def unlinked(file: File | None) -> File | None:
    return None if file is None else File(file.data, Kept.UNLINKED)


def after_cut(file: File | None) -> list[File | None]:
    """What the disk may hold when the power is back: all that was durable, any part of the rest."""
    if file is None:
        return [None]
    outcomes = {Kept.CACHED: [DURABLE, TORN], Kept.DURABLE: [DURABLE], Kept.TORN: [TORN]}[file.data]
    return [*outcomes] if file.name is Kept.DURABLE else [*outcomes, None]
