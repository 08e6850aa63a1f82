"""Pages from templates. All text of a report is escaped, and its invisible characters are made visible."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from migrate.model import units
from migrate.model.preview import Shown
from migrate.show.page.tables import fitted
from migrate.show.plain import COMMAND

_GROUP = 8
"""Hex digits between two spaces: four bytes."""
Run = tuple[str, bool]
"""Digits in groups, and whether they are marked."""


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
    """A key or value in hex, with the part marked that differs from `other`; nothing if one of them was cut."""
    try:
        mine, theirs = bytes.fromhex(shown.hex), bytes.fromhex(other.hex)
    except ValueError:  # cut: it ends with dots
        return plain_dump(shown)
    head = _shared(mine, theirs)
    tail = _shared(mine[head:][::-1], theirs[head:][::-1])
    return _runs(shown.hex, 2 * head, 2 * (len(mine) - tail))


def _shared(mine: bytes, theirs: bytes) -> int:
    pairs = zip(mine, theirs, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(mine), len(theirs)))


def _runs(digits: str, start: int, end: int) -> list[Run]:
    """The digits, marked from `start` to `end`, with a space after every group."""
    runs = []
    for first, last, is_marked in ((0, start, False), (start, end, True), (end, len(digits), False)):
        spaced = "".join(f"{digits[at]} " if at % _GROUP == _GROUP - 1 else digits[at] for at in range(first, last))
        text = spaced if last < len(digits) else spaced.rstrip()
        runs += [(text.rstrip(), is_marked), (text[len(text.rstrip()) :], False)]
    return [(text, is_marked) for text, is_marked in runs if text]
