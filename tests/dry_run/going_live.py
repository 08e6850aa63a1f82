"""Situations in which a run has something to ask before the new stores go live."""

from __future__ import annotations

from pathlib import Path

from tests.dry_run.scenes import SOME_REJECTED, Arrange, Scene, raw


def rejects_that_nothing_accepts(folder: Path) -> Scene:
    return Scene(raw(folder, function=SOME_REJECTED, run={"on_reject": "skip"}), code=3)


def rejects_before_a_cutover(folder: Path) -> Scene:
    return Scene(raw(folder, function=SOME_REJECTED, run={"on_reject": "skip"}, target={"path": None}))


def published_unverified(folder: Path) -> Scene:
    return Scene(raw(folder, run={"verify": "off"}), code=6)


def published_unverified_as_allowed(folder: Path) -> Scene:
    return Scene(raw(folder, run={"verify": "off"}, conversion={"allow": ["unverified"]}))


GOING_LIVE_SCENES: list[Arrange] = [
    rejects_that_nothing_accepts, rejects_before_a_cutover, published_unverified, published_unverified_as_allowed
]  # fmt: skip
