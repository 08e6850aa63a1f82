"""What `run` refuses, `doctor` and `plan` say before, in the same words."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate.cli.main import main
from migrate.errors import ExitCode
from tests.bad_input.support import TASKS, Migration
from tests.support import make_families, make_store, numbered, read_families, tree_state

VERBS = [verb for verb in ("run", "doctor", "plan") if verb in main.commands]
OPTIONS = {"run": ("--no-spark", "--quiet"), "doctor": ("--no-spark",), "plan": ()}

every_verb = pytest.mark.parametrize("verb", VERBS)


def says(migration: Migration, verb: str, code: ExitCode, *said: str) -> None:
    """The exit code, and these words; nothing is touched."""
    before = tree_state(migration.folder)
    outcome = migration.run(*(OPTIONS[verb] if verb != "run" else ()), verb=verb)
    text = " ".join((outcome.out + outcome.err).split())
    print(text)
    assert outcome.code == code
    assert "Traceback" not in text
    for words in said:
        assert words in text
    after = tree_state(migration.folder)
    assert {name: state for name, state in after.items() if name in before} == before
    assert set(after) - set(before) <= {"migration.toml"}


@every_verb
def test_a_spec_with_a_mistake_is_a_usage_error(app: Migration, verb: str) -> None:
    app.set("source", stroe="x", format="kafka-streams.keyvalue")
    app.set("run", chunk_size="1 GB/s", verify=True)
    says(
        app,
        verb,
        ExitCode.USAGE,
        "migration.toml has mistakes: - unknown key 'source.stroe': did you mean 'store'?",
        "- run.chunk_size: should be a size, like \"512 MiB\", is '1 GB/s'",
        "- run.verify: should be 'full', 'digest' or 'off', is True",
        "next: mend them and run the command again",
    )


@every_verb
def test_a_misspelt_format_names_the_nearest(app: Migration, verb: str) -> None:
    app.set("target", format="kafka-streams.timestamp-key-value")
    words = "[target] unknown format 'kafka-streams.timestamp-key-value': did you mean "
    says(app, verb, ExitCode.USAGE, f"{words}'kafka-streams.timestamped-key-value'?")


@every_verb
def test_a_spec_that_is_not_there(app: Migration, verb: str) -> None:
    missing = app.folder / "none.toml"
    outcome = app.commands.run([verb, *OPTIONS[verb], str(missing)])
    assert outcome.code == ExitCode.USAGE
    words = f"stateferry: cannot read the spec {missing}: No such file or directory next: check the path"
    assert outcome.message == words


@every_verb
def test_a_path_that_does_not_exist(app: Migration, verb: str) -> None:
    app.set("source", path="nowhere")
    wanted = "let [source] path name the application's own directory, <state.dir>/<application.id>"
    says(app, verb, ExitCode.REFUSED, f"{app.folder}/nowhere does not exist", wanted)


@every_verb
def test_a_store_that_is_not_there_names_those_that_are(app: Migration, verb: str) -> None:
    app.set("source", store="refnds")
    missing = f"no key-value store 'refnds' in {app.source}"
    says(app, verb, ExitCode.REFUSED, missing, "did you mean 'refunds'? there are: customers, orders, refunds")


def _streamiz(folder: Path) -> None:
    make_store(folder / "0-0/rocksdb/orders", numbered(3))


def _faust(folder: Path) -> None:
    make_store(folder / "v1/tables/orders-0.db", numbered(3))


def _quix(folder: Path) -> None:
    make_store(folder / "default/orders-topic/0", numbered(3))


def _spark(folder: Path) -> None:
    (folder / "state/0/0").mkdir(parents=True)
    (folder / "state/0/0/1.zip").touch()
    (folder / "offsets").mkdir()
    (folder / "metadata").touch()


@every_verb
@pytest.mark.parametrize(
    ("make", "there"),
    [(_streamiz, "0-0"), (_faust, "v1"), (_quix, "default"), (_spark, "metadata, offsets, state")],
    ids=["streamiz", "faust", "quix", "spark"],
)
def test_a_directory_of_another_system(app: Migration, verb: str, make: Callable[[Path], None], there: str) -> None:
    make(app.folder / "other")
    app.set("source", path="other")
    held = f"{app.folder}/other holds no task directory (like 0_0); there are: {there}"
    says(app, verb, ExitCode.REFUSED, held, "<state.dir>/<application.id>")


@every_verb
@pytest.mark.parametrize(
    ("make", "below"),
    [
        (_faust, "RocksDB directories below it: v1/tables/orders-0.db; name one in `path`, or the store in `store`"),
        (_spark, "check [source] path"),
    ],
    ids=["faust", "spark"],
)
def test_a_directory_of_another_system_as_a_rocksdb(
    raw: Migration, verb: str, make: Callable[[Path], None], below: str
) -> None:
    make(raw.folder / "other")
    raw.set("source", path="other")
    is_none = f"{raw.folder}/other is no RocksDB directory: neither CURRENT nor a MANIFEST is in it"
    says(raw, verb, ExitCode.REFUSED, is_none, below)


@every_verb
def test_a_plain_store_named_as_timestamped(app: Migration, verb: str) -> None:
    app.set("source", format="kafka-streams.timestamped-key-value")
    said = "0_0/rocksdb/orders is not kafka-streams.timestamped-key-value: it has no column family"
    says(app, verb, ExitCode.REFUSED, f"{said} 'keyValueWithTimestamp' (it has: default)", "`stateferry inspect`")


@every_verb
def test_a_loss_that_is_not_allowed(app: Migration, verb: str) -> None:
    app.set("source", store="customers", format="kafka-streams.timestamped-key-value")
    app.set("target", format="kafka-streams.key-value")
    allow = 'if that may be lost, say so: [conversion] allow = ["loss:timestamp"]'
    says(app, verb, ExitCode.REFUSED, "cannot hold the timestamp that", allow)


@every_verb
def test_a_work_dir_inside_the_state_directory(app: Migration, verb: str) -> None:
    app.spec["work_dir"] = "orders-app/work"
    inside = f"work_dir {app.source}/work lies inside the application's state directory"
    says(app, verb, ExitCode.REFUSED, inside, "put it beside: a foreign directory in there can hide stores")


@every_verb
def test_a_target_that_is_there_already(app: Migration, verb: str) -> None:
    app.target.mkdir()
    exists = f"[target] path {app.target} exists already"
    says(app, verb, ExitCode.REFUSED, exists, "name a path that does not exist yet")


@every_verb
def test_the_version_of_an_owner_that_has_no_such_format(app: Migration, verb: str) -> None:
    app.set("target", format="kafka-streams.headers-key-value", version="4.2")
    has = "Kafka Streams has kafka-streams.headers-key-value since 4.3, and [target] version is 4.2"
    says(app, verb, ExitCode.REFUSED, has, 'let 4.3 or newer open the new store: [target] version = "4.3"')


@every_verb
def test_a_foreign_name_among_segments(app: Migration, verb: str) -> None:
    make_store(app.source / "0_0/visits/visits.1763812800000", {})
    (app.source / "0_0/visits/visits.bak").mkdir()
    app.set("source", store="visits", format="kafka-streams.window")
    app.set("target", format="kafka-streams.timestamped-window")
    foreign = f"{app.source}/0_0/visits/visits.bak is no segment of the store 'visits'"
    says(app, verb, ExitCode.REFUSED, foreign, "move it away: beside a foreign name the application finds none")


@every_verb
def test_a_conversion_that_there_is_not(app: Migration, verb: str) -> None:
    app.set("target", format="kafka-streams.window")
    says(
        app,
        verb,
        ExitCode.REFUSED,
        "kafka-streams.key-value holds one value for each key, kafka-streams.window holds one value for each key and "
        "window: nothing says how one would become the other",
        "name what it can become in [target] format: kafka-streams.timestamped-key-value",
    )


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "run"])
@pytest.mark.parametrize("families", [{"default": {}}, {"default": {}, "offsets": {b"status": bytes(8)}}])
def test_a_store_without_records_is_no_hindrance(
    app: Migration, verb: str, families: dict[str, dict[bytes, bytes]]
) -> None:
    for task in TASKS:
        shutil.rmtree(app.source / task / "rocksdb/orders")
        make_families(app.source / task / "rocksdb/orders", families)
    says(app, verb, ExitCode.DONE)


def test_a_store_that_holds_metadata_alone_carries_it(app: Migration) -> None:
    offsets = {b"orders-app-orders-changelog-0": (41).to_bytes(8, "big"), b"status": bytes(8)}
    for task in TASKS:
        shutil.rmtree(app.source / task / "rocksdb/orders")
        make_families(app.source / task / "rocksdb/orders", {"default": {}, "offsets": offsets})

    report = app.completes({})

    assert report["totals"]["records_in"] == 0
    for task in TASKS:
        found = read_families(app.target / task / "rocksdb/orders")
        assert found == {"default": {}, "keyValueWithTimestamp": {}, "offsets": offsets}


def test_the_same_format_on_both_sides_is_a_verified_copy(app: Migration) -> None:
    """Not a mistake: it writes every record anew, in a table format that older versions read."""
    app.set("target", format=app.spec["source"]["format"])
    source = read_families(app.source / "0_0/rocksdb/orders")

    report = app.completes({})

    assert (report["verification"]["missing"], report["verification"]["records"]) == (0, 6000)
    assert read_families(app.target / "0_0/rocksdb/orders") == source
