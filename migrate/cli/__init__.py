"""The command `stateferry`: each verb calls one library function and shows what it returns."""

from migrate.cli.main import main

__all__ = ["main"]
