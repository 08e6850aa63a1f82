"""`/docs`: what can be asked, as a page without scripts."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from migrate.serve.docs.openapi import openapi
from migrate.serve.web.wire import Answer

POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@cache
def docs_page() -> Answer:
    """The page."""
    loader = PackageLoader("migrate.serve.docs", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    text = environment.get_template("docs.html.j2").render(api=openapi())
    return Answer(text.encode(), kind=b"text/html; charset=utf-8", headers=((b"content-security-policy", POLICY),))
