"""Situations of the migration's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import migrate
from tests.dry_run.scenes import Arrange, Scene, raw, stopped_at
from tests.support import make_store, numbered
from tests.switching.support import StopAt, StoppedError


def a_folder_of_somebody_else(folder: Path) -> Scene:
    spec = raw(folder)
    make_store(spec.home / ".git", numbered(3))
    (spec.source_path / "CURRENT").unlink()  # which would be refused as well
    return Scene(spec, code=6)


def a_folder_that_is_a_link(folder: Path) -> Scene:
    spec = stopped_at("chunk.committed", raw(folder))
    spec.home.rename(folder / "elsewhere")
    spec.home.symlink_to(folder / "elsewhere")
    return Scene(spec, code=6)


def an_abandon_was_killed(folder: Path) -> Scene:
    spec = stopped_at("chunk.committed", raw(folder))
    with pytest.raises(StoppedError):
        migrate.abandon(spec, on_event=StopAt("abandon.renamed"))
    return Scene(spec)


def a_folder_of_an_earlier_release(folder: Path) -> Scene:
    spec = stopped_at("chunk.committed", raw(folder))
    (spec.home / "stateferry-folder.json").unlink()
    return Scene(spec)


FOLDER_SCENES: list[Arrange] = [
    a_folder_of_somebody_else, a_folder_that_is_a_link, an_abandon_was_killed, a_folder_of_an_earlier_release,
]  # fmt: skip
