"""`[target] version`: what of an owning system's own that version knows, and what it would stumble over."""

from __future__ import annotations

from collections.abc import Iterable

from formats import Format
from formats.format import in_order
from migrate.errors import RefusedError
from migrate.spec import Spec


def check_version(spec: Spec) -> str | None:
    """What is to open the new store, in words. Raises RefusedError where that version has no such format."""
    version, target = spec.target.version, spec.target_format
    if version is None:
        return None
    known = target.checked_version(version)
    if target.since is not None and in_order(version) < in_order(target.since):
        raise RefusedError(
            f"{known.name} has {target.id} since {target.since}, and [target] version is {version}",
            hint=f'let {target.since} or newer open the new store: [target] version = "{target.since}"; or name a '
            "format without headers",
        )
    return f"{known.name} {version}"


def families_to_carry(target: Format, version: str | None, there: Iterable[str]) -> tuple[str, ...]:
    """Which of the old store's own families of its system the new store is to have; `version` is to open it."""
    since = {} if version is None else dict(target.checked_version(version).families)
    return tuple(
        family
        for family in there
        if family in target.metadata_families
        and (version is None or family not in since or in_order(version) >= in_order(since[family]))
    )
