"""Pages from templates, with all text escaped and invisible characters visible, and tables that fit the page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from migrate.model import display as units
from migrate.model.preview import DOTS, Shown, shared
from migrate.show.plain import COMMAND

_GROUP = 8
"""Hex digits between two spaces: four bytes."""
Run = tuple[str, bool]
"""Digits in groups, and whether they are marked."""
_LONG_WORD = 36
_LONG = 32
_SHORT = 16
"""Characters of a word, and of a text, in a table."""


def render(template: str, **content: object) -> str:
    """A page in one file, without references to others."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("migrate.show.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named = (units.number, units.size, units.duration, units.rate, units.share, units.moment, units.plural)
    environment.filters.update({function.__name__: function for function in named})
    environment.filters["commands"] = commands
    environment.globals.update(fitted=fitted, plain_dump=plain_dump, marked_dump=marked_dump)
    return environment


def _finalize(value: object) -> object:
    return value if isinstance(value, Markup) else units.visible(str(value))


def commands(text: object) -> Markup:
    """The text, in which a click on a command selects all of it."""
    parts, at, written = [], 0, units.visible(str(text))
    for found in COMMAND.finditer(written):
        parts += [escape(written[at : found.start()]), Markup('<code class="command">{}</code>').format(found.group())]
        at = found.end()
    return Markup("").join([*parts, escape(written[at:])])


def plain_dump(shown: Shown) -> list[Run]:
    """A key or value in hex, nothing marked."""
    return _runs(shown.hex, 0, 0)


def marked_dump(shown: Shown, other: Shown) -> list[Run]:
    """A key or value in hex, with the part marked that differs from `other`: where one is cut, up to its end."""
    mine, theirs = bytes.fromhex(shown.hex.strip(".")), bytes.fromhex(other.hex.strip("."))
    head = shared(mine, theirs)
    is_cut = shown.hex.endswith(DOTS) or other.hex.endswith(DOTS)
    tail = 0 if is_cut else shared(mine[head:][::-1], theirs[head:][::-1])
    return _runs(shown.hex, 2 * head, 2 * (len(mine) - tail))


def _runs(shown: str, start: int, end: int) -> list[Run]:
    """The digits, marked from `start` to `end`, with a space after every group and dots for what was cut."""
    digits = shown.strip(".")
    runs = [(f"{DOTS} ", False)] if shown.startswith(DOTS) else []
    for first, last, is_marked in ((0, start, False), (start, end, True), (end, len(digits), False)):
        spaced = "".join(f"{digits[at]} " if at % _GROUP == _GROUP - 1 else digits[at] for at in range(first, last))
        text = spaced if last < len(digits) else spaced.rstrip()
        runs += [(text.rstrip(), is_marked), (text[len(text.rstrip()) :], False)]
    runs += [(f" {DOTS}", False)] if digits and shown.endswith(DOTS) else []
    return [(text, is_marked) for text, is_marked in runs if text]


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
