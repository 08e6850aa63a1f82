"""Segments as older versions of Kafka Streams name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bad_input.support import Migration
from tests.dry_run.segmented import NOON
from tests.shared.commands import Commands
from tests.situations.situation import visits_migration


@pytest.fixture
def visits(commands: Commands, folder: Path) -> Migration:
    return visits_migration(commands, folder)


def test_a_segment_of_an_older_name_is_read_and_renamed(visits: Migration) -> None:
    old = visits.source / f"0_1/visits/visits.{NOON}"
    old.rename(old.with_name("visits-202511221200"))

    report = visits.completes({})

    assert report["totals"]["records_in"] == report["totals"]["records_out"] > 0
    assert (visits.target / f"0_1/visits/visits.{NOON}/CURRENT").exists()
    assert not (visits.target / "0_1/visits/visits-202511221200").exists()
