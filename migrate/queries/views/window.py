"""Window stores."""

from __future__ import annotations

from migrate.queries.views.composite import Composite


class WindowView(Composite):
    """A read-only window store."""
