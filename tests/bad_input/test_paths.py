"""Paths that name something else, or nothing."""

from __future__ import annotations

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import Migration, expected_orders
from tests.support import KEY_VALUE


def test_one_rocksdb_directory_of_an_application_can_be_migrated_alone(app: Migration) -> None:
    app.spec["source"] = {"format": KEY_VALUE, "path": "orders-app/0_0/rocksdb/orders"}

    app.completes({".": expected_orders()["0_0/rocksdb/orders"]})


def test_a_folder_of_the_target_that_does_not_exist_is_made(raw: Migration) -> None:
    raw.set("target", path="deep/er/new")

    assert raw.run().code == ExitCode.DONE
    assert (raw.folder / "deep/er/new/CURRENT").exists()


@pytest.mark.parametrize("verb", ["run", "inspect"])
def test_a_symbolic_link_to_the_source_is_followed(app: Migration, verb: str) -> None:
    (app.folder / "linked").symlink_to(app.source)
    app.set("source", path="linked")

    if verb == "run":
        app.completes(expected_orders())
    else:
        outcome = app.commands.run(["inspect", str(app.folder / "linked")])
        assert (outcome.code, outcome.out.count("rocksdb/orders")) == (ExitCode.DONE, 3)


def test_inspecting_what_is_not_there_is_refused(app: Migration) -> None:
    for path in ("nowhere", "orders-app/.checkpoint"):
        outcome = app.commands.run(["inspect", str(app.folder / path)])
        assert outcome.code == ExitCode.REFUSED
        assert f"{app.folder / path} is not a directory" in outcome.err
        assert "next: " in outcome.err
