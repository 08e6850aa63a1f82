"""`[target] version`: whether that version of the owning system can open the new store."""

from __future__ import annotations

from migrate.errors import RefusedError
from migrate.owner_versions import in_order, owner_versions
from migrate.source import Source
from migrate.spec import Spec
from migrate.stores.options_file import read_options


def check_version(spec: Spec, source: Source) -> str | None:
    """What is to open the new store, in words. Raises RefusedError where it has what that version does not know."""
    version = spec.target.version
    if version is None:
        return None
    known = owner_versions(spec.target.format, version)
    for partition in source.partitions:
        for directory in source.directories(partition).values():
            there = read_options(directory)
            for family, since in known.families:
                if family in there and in_order(version) < in_order(since):
                    raise RefusedError(
                        f"{directory} has the column family {family!r}, which {known.name} before {since} cannot open, "
                        f"and [target] version is {version}",
                        hint=f'let {since} or newer open the new store: [target] version = "{since}"; an older one has '
                        "to restore the store from its changelog",
                    )
    return f"{known.name} {version}"
