"""How generated code bails out: it gives a batch up unconverted, and the reference path decides."""

from __future__ import annotations

from typing import NoReturn


class BailOutError(Exception):
    """A record does not fit the program. The reference path finds out which record, and why."""


def bail_out() -> NoReturn:
    """Raises BailOutError, for use in expressions, which cannot hold a `raise`."""
    raise BailOutError
