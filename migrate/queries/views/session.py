"""Session stores."""

from __future__ import annotations

from migrate.queries.views.composite import Composite


class SessionView(Composite):
    """A read-only session store."""
