"""Which versions of an owning system are known, and what of its own keeps older ones from opening a store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnerVersions:
    """Of one owning system."""

    name: str
    oldest: str
    newest: str
    """The real system opened new stores of ours in these two, and in versions between them."""
    families: tuple[tuple[str, str], ...] = ()
    """(column family of its own, first version that can open a store that has it)."""


_KNOWN = {
    # 3.9 carries RocksDB 7.9, which opens table format 5, the one that new stores are written in, but not 6. Versions
    # before 3.9 carry older ones, and none was tried.
    "kafka-streams": OwnerVersions("Kafka Streams", oldest="3.9", newest="4.3", families=(("offsets", "4.3"),)),
}


def owner_versions(format_id: str, version: str) -> OwnerVersions:
    """What is known where `[target] version` names this one. Raises ValueError where nothing is."""
    known = _KNOWN.get(format_id.partition(".")[0])
    if known is None:
        raise ValueError(f"[target] version: {format_id} has no owning system whose version could matter: leave it out")
    if not in_order(known.oldest) <= in_order(version)[:2] <= in_order(known.newest):
        raise ValueError(
            f"[target] version: {known.name} {version} is not known, {known.oldest} to {known.newest} are; for another "
            "one leave `version` out, and let it open a copy of the new store first"
        )
    return known


def in_order(version: str) -> tuple[int, ...]:
    """To be compared."""
    return tuple(int(part) for part in version.split("."))
