"""Revisions of the conversion: a changed function that takes over within the same migration.

A revision replaces the function's part of the identity. It voids the chunks with rejected records, and every new store
that was assembled before. The other chunks stay, and a full verification has to show that they may.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from migrate.model.ledger_row import Row, Step, read_detail
from migrate.model.values import Stored

FIRST = ""
"""The id of the conversion that the migration was started with."""


class Revision(Stored):
    """A changed function, as the ledger records it."""

    number: int
    function: dict[str, str]
    """The function's part of the identity: digests, with their scheme, by name."""
    by: str
    """The user who registered it."""
    superseded: tuple[str, ...] = ()
    """The attempts that no longer count: their chunks are rewritten."""

    @property
    def id(self) -> str:
        """The id by which receipts and assembled stores name the conversion that made them."""
        digest = hashlib.sha256(json.dumps(self.function, sort_keys=True).encode()).hexdigest()
        return f"{self.number}-{digest[:16]}"


def is_of_function(name: str) -> bool:
    """Whether a part of the identity is one of the function's."""
    return name == "function" or name.startswith("function: ")


def function_of(identity: Mapping[str, str]) -> dict[str, str]:
    """The function's part of an identity."""
    return {name: digest for name, digest in identity.items() if is_of_function(name)}


def revised(identity: Mapping[str, str], revision: Revision | None) -> dict[str, str]:
    """The identity with the function of this revision."""
    if revision is None:
        return dict(identity)
    return {name: digest for name, digest in identity.items() if not is_of_function(name)} | revision.function


def recorded_revisions(rows: Iterable[Row]) -> list[Revision]:
    """The revisions in the ledger, in order. Raises RefusedError for those of a newer release."""
    return [read_detail(row, Revision, "a revision") for row in rows if row.step is Step.REVISED]


def assembled_by(revision: str, rows: Iterable[Row]) -> list[tuple[str, dict[str, Any]]]:
    """The facts of each assembly by the conversion of this id, in order, with the id of its store partition."""
    made = ((str(row.store_partition), row.facts) for row in rows if row.step is Step.ASSEMBLED)
    return [each for each in made if each[1].get("revision", FIRST) == revision]
