"""Templates to pages. Everything that a report says is escaped, and what cannot be seen in it made visible."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from migrate.model import units
from migrate.show.page import dump


def render(template: str, **content: object) -> str:
    """A page that stands by itself."""
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
    environment.globals.update(plain_dump=dump.plain, marked_dump=dump.marked)
    return environment


def _finalize(value: object) -> object:
    return value if isinstance(value, Markup) else units.visible(str(value))
