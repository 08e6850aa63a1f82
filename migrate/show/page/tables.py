"""Tables that fit the page: a column with the same text in every row is a remark below the table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

_LONG_WORD = 36
_LONG = 32
_SHORT = 16


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    text: str
    kind: str
    """Its class in the style sheet."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is shown."""

    columns: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    same: tuple[tuple[str, str], ...]
    """Columns that were left out, each with the text of all its rows."""


def fitted(
    rows: Sequence[Sequence[str]], columns: Sequence[str], numbers: Collection[str] = (), fold: Collection[str] = ()
) -> Table:
    """The table; `fold` names the columns that are left out if all rows say the same in them."""
    texts = [{row[at] for row in rows} for at in range(len(columns))]
    left_out = [at for at, name in enumerate(columns) if name in fold and len(rows) > 1 and len(texts[at]) == 1]
    kept = [at for at in range(len(columns)) if at not in left_out]
    return Table(
        tuple(Cell(columns[at], "number" if columns[at] in numbers else "") for at in kept),
        tuple(
            tuple(Cell(row[at], "number" if columns[at] in numbers else _kind(row[at])) for at in kept) for row in rows
        ),
        tuple((columns[at], rows[0][at]) for at in left_out if rows[0][at]),
    )


def _kind(text: str) -> str:
    """The class of a text: long words may be broken, long texts need room, short ones stay on a line."""
    longest = max(map(len, text.split()), default=0)
    if longest > _LONG_WORD:
        return "path"
    return "text" if len(text) > _LONG else "short" if len(text) <= _SHORT else "medium"
