"""Pages from templates. All text of a report is escaped, and its invisible characters are made visible."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from migrate.model import units
from migrate.model.preview import DOTS, Shown, shared
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
