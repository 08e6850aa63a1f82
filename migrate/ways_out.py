"""What to do about records that cannot be converted: nobody is told to mend a function where there is none."""

from __future__ import annotations


def mend(*, has_function: bool) -> str:
    """What made records fail."""
    return "mend the function" if has_function else "correct [source] format, or the serdes of [conversion]"


def raise_the_cap(*, has_function: bool) -> str:
    """Where more records failed than [run] allows."""
    return (
        "raise the cap in [run] and rerun: what is finished is kept; or "
        f"{mend(has_function=has_function)} and begin anew by another `name`"
    )
