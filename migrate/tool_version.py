"""The version of Stateferry that is at work."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def tool_version() -> str:
    """As it was installed."""
    try:
        return version("stateferry")
    except PackageNotFoundError:
        return "of a source tree"
