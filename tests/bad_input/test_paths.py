"""Paths that name something else, or nothing."""

from __future__ import annotations

import pytest

from migrate.errors import ExitCode
from tests.bad_input.commands import run_from_scratch
from tests.bad_input.support import Migration, expected_orders, raw_records
from tests.support import KEY_VALUE


def test_a_missing_path_is_refused(app: Migration) -> None:
    app.set("source", path="nowhere")

    forked = app.refused(str(app.folder / "nowhere"), "does not exist", "<state.dir>/<application.id>")

    assert run_from_scratch(["run", "--no-spark", str(app.spec_file)]) == forked


def test_a_path_to_a_file_is_refused(app: Migration) -> None:
    app.set("source", path="orders-app/kafka-streams-process-metadata")

    app.refused("kafka-streams-process-metadata is not a directory", "<state.dir>/<application.id>")


def test_a_missing_rocksdb_directory_is_refused(raw: Migration) -> None:
    raw.set("source", path="nowhere")

    raw.refused(str(raw.folder / "nowhere"), "does not exist", "[source] path")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("order", "did you mean 'orders'?"),
        ("Refunds", "did you mean 'refunds'?"),
        ("zzz", "there are: customers, orders, refunds"),
    ],
)
def test_a_missing_store_is_refused_with_those_that_are_there(app: Migration, name: str, said: str) -> None:
    app.set("source", store=name)

    app.refused(f"no key-value store '{name}'", str(app.source), said, "there are: customers, orders, refunds")


def test_one_missing_store_of_several_is_named(app: Migration) -> None:
    del app.spec["source"]["store"]
    app.set("source", stores=["orders", "refund"])

    app.refused("no key-value store 'refund'", "did you mean 'refunds'?")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (".", ("holds no task directory", "did you mean", "orders-app'")),
        ("orders-app/0_0", ("is a task directory", "did you mean", "orders-app'")),
        ("orders-app/0_0/rocksdb", ("holds no task directory", "customers, orders, refunds", "orders-app'")),
        ("orders-app/0_0/rocksdb/orders", ("is a RocksDB directory", "leave `store` out", "orders-app'")),
    ],
)
def test_a_path_one_level_off_is_refused_with_what_is_there(app: Migration, path: str, said: tuple[str, ...]) -> None:
    app.set("source", path=path)

    app.refused(str((app.folder / path).resolve()), *said)


@pytest.mark.parametrize("path", ["orders-app", "orders-app/0_0", "orders-app/0_0/rocksdb"])
def test_a_path_above_a_rocksdb_directory_is_refused_with_those_below(app: Migration, path: str) -> None:
    app.spec["source"] = {"format": KEY_VALUE, "path": path}

    app.refused(str(app.folder / path), "no RocksDB directory", "orders", "name one in `path`, or the store in `store`")


def test_an_empty_directory_is_refused(app: Migration) -> None:
    (app.folder / "empty").mkdir()
    app.set("source", path="empty")

    app.refused(str(app.folder / "empty"), "holds no task directory", "is empty", "<state.dir>/<application.id>")


def test_one_rocksdb_directory_of_an_application_can_be_migrated_alone(app: Migration) -> None:
    app.spec["source"] = {"format": KEY_VALUE, "path": "orders-app/0_0/rocksdb/orders"}

    app.completes({".": expected_orders()["0_0/rocksdb/orders"]})


def test_a_target_that_exists_is_refused(raw: Migration) -> None:
    raw.target.mkdir()
    (raw.target / "theirs").write_text("kept")

    before = raw.run()
    assert before.code == ExitCode.REFUSED
    assert f"[target] path {raw.target} exists already" in before.err
    assert "next: name a path that does not exist yet" in before.err
    assert [path.name for path in raw.target.iterdir()] == ["theirs"]

    (raw.target / "theirs").unlink()
    raw.target.rmdir()
    raw.completes({".": raw_records()})


@pytest.mark.parametrize("target", ["orders-app", "orders-app/new", "."])
def test_a_target_that_contains_the_source_or_lies_in_it_is_refused(app: Migration, target: str) -> None:
    app.set("target", path=target)

    app.refused("[target] path", str((app.folder / target).resolve()), "name a")


@pytest.mark.parametrize("work_dir", ["orders-app", "orders-app/work", "orders-app/0_0"])
def test_a_work_dir_inside_the_source_is_refused(app: Migration, work_dir: str) -> None:
    app.spec["work_dir"] = work_dir

    app.refused("work_dir", str(app.folder / work_dir), "inside the application's state directory", "put it beside")


def test_a_work_dir_that_is_a_file_is_refused(app: Migration) -> None:
    (app.folder / "file").touch()
    app.spec["work_dir"] = "file"

    app.refused(str(app.folder / "file"), "is not a directory", "work_dir")


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


def test_a_symbolic_link_into_the_source_is_no_place_for_the_work_dir(app: Migration) -> None:
    (app.folder / "linked").symlink_to(app.source)
    app.spec["work_dir"] = "linked/work"

    app.refused("inside the application's state directory")


def test_inspecting_what_is_not_there_is_refused(app: Migration) -> None:
    for path in ("nowhere", "orders-app/.checkpoint"):
        outcome = app.commands.run(["inspect", str(app.folder / path)])
        assert outcome.code == ExitCode.REFUSED
        assert f"{app.folder / path} is not a directory" in outcome.err
        assert "next: " in outcome.err
