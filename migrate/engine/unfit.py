"""What an engine says where a record does not fit a program."""

from __future__ import annotations

from typing import NoReturn


class UnfitError(Exception):
    """A record does not fit the program; the reference path says which, and why."""


def unfit() -> NoReturn:
    """Raises UnfitError: for expressions, where `raise` is no part of one."""
    raise UnfitError
