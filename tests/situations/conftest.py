"""A folder of its own for each situation, and none left behind among temporary files."""

from tests.bad_input.conftest import commands, folder, memory
from tests.dry_run.conftest import temporary

__all__ = ["commands", "folder", "memory", "temporary"]
