"""Specs that cannot be understood: exit 2, every mistake named, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.errors import ExitCode
from tests.bad_input.commands import CommandServer
from tests.bad_input.support import Migration, check_clear
from tests.support import RAW, make_store, tree_state


def misunderstood(migration: Migration, *said: str) -> None:
    """Exit 2; the file is named and nothing is written."""
    migration.fails(ExitCode.USAGE, *said)
    assert not (migration.folder / "work").exists()


@pytest.mark.parametrize(
    ("section", "keys", "said"),
    [
        ("", {"nmae": "x"}, "unknown key 'nmae': did you mean 'name'?"),
        ("", {"workdir": "x"}, "unknown key 'workdir': did you mean 'work_dir'?"),
        ("", {"base_dir": "x"}, "unknown key 'base_dir'"),
        ("source", {"stroe": "orders"}, "unknown key 'source.stroe': did you mean 'store'?"),
        ("target", {"paht": "x"}, "unknown key 'target.paht': did you mean 'path'?"),
        ("conversion", {"default_timestamp": 1}, "default_timestamp': did you mean 'default_timestamp_ms'?"),
        ("run", {"chunksize": 1}, "unknown key 'run.chunksize': did you mean 'chunk_size'?"),
        ("run", {"zzz": 1}, "unknown key 'run.zzz': known: chunk_size"),
        ("convert", {"function": "a:b"}, "unknown key 'convert': did you mean 'conversion'?"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(
    app: Migration, section: str, keys: dict[str, object], said: str
) -> None:
    if section:
        app.set(section, **keys)
    else:
        app.spec = {**keys, **app.spec}

    misunderstood(app, "migration.toml", said)


@pytest.mark.parametrize(
    ("section", "keys", "said"),
    [
        ("source", {"format": "kafka-stream.keyvalue"}, "did you mean 'kafka-streams.key-value'?"),
        ("source", {"format": "rocksdb.rw"}, "did you mean 'rocksdb.raw'?"),
        ("target", {"format": "timestamped"}, "[target] unknown format 'timestamped': did you"),
        ("target", {"format": ""}, "known formats: kafka-streams.key-value, "),
        ("source", {"stores": ["refunds"]}, "source: give `store` or `stores`, not both"),
        ("source", {"store": 7}, "source.store: should be text, in quotes, is 7"),
        ("source", {"path": 7}, "source.path: should be a path, in quotes, is 7"),
        ("conversion", {"allow": ["loss:time"]}, "conversion.allow.0: should be 'changelog', 'key-change'"),
        ("conversion", {"allow": "changelog"}, "conversion.allow: should be a list, in brackets, is 'changelog'"),
        ("conversion", {"default_timestamp_ms": "now"}, "conversion.default_timestamp_ms: should be a whole number"),
        ("conversion", {"default_timestamp_ms": -2}, "greater than or equal to -1"),
        ("conversion", {"function": "convert"}, 'conversion.function: should be "module:function"'),
        ("conversion", {"function": "my module:f"}, 'conversion.function: should be "module:function"'),
        ("run", {"chunk_size": "large"}, 'run.chunk_size: should be a size, like "512 MiB"'),
        ("run", {"chunk_size": "1 GB/s"}, "run.chunk_size: should be a size, like \"512 MiB\", is '1 GB/s'"),
        ("run", {"chunk_size": "-1 GB"}, 'run.chunk_size: should be a size, like "512 MiB"'),
        ("run", {"chunk_size": 0}, "run.chunk_size: should be greater than 0"),
        ("run", {"time_budget": "2 hours"}, 'run.time_budget: a duration is a number and a unit, like "90s"'),
        ("run", {"time_budget": 90}, "run.time_budget: a duration is a number and a unit"),
        ("run", {"on_reject": "ignore"}, "run.on_reject: should be 'fail', 'skip' or 'dead-letter'"),
        ("run", {"max_rejects": -1}, "run.max_rejects: should be greater than or equal to 0"),
        ("run", {"max_reject_share": 5}, "run.max_reject_share: should be less than or equal to 1"),
        ("target", {"version": 4.3}, "target.version: should be text, in quotes, is 4.3"),
        ("target", {"version": "4"}, """target.version: should be a version, like "4.3", is '4'"""),
        ("target", {"version": "latest"}, 'target.version: should be a version, like "4.3"'),
        ("target", {"version": "3.8"}, "[target] version: Kafka Streams 3.8 is not known, 3.9 to 4.3 are"),
        ("target", {"version": "5.0.1"}, "Kafka Streams 5.0.1 is not known, 3.9 to 4.3 are; for another one leave"),
        ("run", {"source": "snapshots"}, "run.source: should be 'live' or 'snapshot'"),
        ("run", {"source": "snapshot"}, "goes with `cutover`, not with [target] path"),
        ("run", {"verify": "fast"}, "run.verify: should be 'full', 'digest' or 'off'"),
        ("run", {"snapshot": "rename"}, "run.snapshot: should be 'link' or 'copy'"),
    ],
)
def test_a_value_that_is_none_is_named_with_what_it_may_be(
    app: Migration, section: str, keys: dict[str, object], said: str
) -> None:
    app.set(section, **keys)

    misunderstood(app, "migration.toml", said)


def test_a_store_named_twice_is_refused(app: Migration) -> None:
    app.spec["source"] = {"format": RAW, "path": "x", "stores": ["orders", "orders"]}

    misunderstood(app, "source: `stores` names a store twice")


@pytest.mark.parametrize("name", ["", "Orders", "../orders", "a b"])
def test_a_name_that_is_no_folder_name_is_refused(app: Migration, name: str) -> None:
    app.spec["name"] = name

    misunderstood(app, "name: should be lower-case letters, digits and hyphens")


def test_every_mistake_is_named_at_once(app: Migration) -> None:
    del app.spec["name"]
    app.set("source", stroe="orders")
    app.set("run", verify="fast")

    misunderstood(app, "'name' is missing", "'source.stroe'", "run.verify")


def test_a_section_that_is_a_value_is_named(app: Migration) -> None:
    app.spec["source"] = "state"

    misunderstood(app, "source: ", "section")


@pytest.mark.parametrize("text", ['name = "a', "[source\n", 'name = "a"\nname = "b"\n'])
def test_bad_toml_is_refused_with_its_line(commands: CommandServer, folder: Path, text: str) -> None:
    file = folder / "migration.toml"
    file.write_text(text, encoding="utf-8")

    outcome = commands.run(["run", "--no-spark", str(file)])

    check_clear(outcome, ExitCode.USAGE, str(file), "not valid TOML", "(at ")


def test_a_spec_that_is_no_text_is_refused(commands: CommandServer, folder: Path) -> None:
    file = folder / "migration.toml"
    file.write_bytes(b"name = \xff\xfe")

    check_clear(commands.run(["run", "--no-spark", str(file)]), ExitCode.USAGE, str(file), "not valid TOML")


@pytest.mark.parametrize("verb", ["run", "status", "verify"])
def test_a_missing_spec_is_refused_by_every_verb(commands: CommandServer, folder: Path, verb: str) -> None:
    file = folder / "migration.toml"

    check_clear(commands.run([verb, str(file)]), ExitCode.USAGE, f"cannot read the spec {file}", "check the path")


def test_a_folder_is_no_spec(commands: CommandServer, folder: Path) -> None:
    check_clear(commands.run(["run", str(folder)]), ExitCode.USAGE, f"cannot read the spec {folder}")


def test_a_verb_that_does_not_exist_is_a_usage_error(commands: CommandServer) -> None:
    outcome = commands.run(["migrate", "x.toml"])

    assert outcome.code == ExitCode.USAGE
    assert "No such command 'migrate'" in outcome.err


def test_a_format_without_stores_is_refused_with_a_store_name(app: Migration) -> None:
    app.spec["source"] = {"format": RAW, "path": "orders-app", "store": "orders"}
    app.spec["target"] = {"format": RAW, "path": "new"}

    misunderstood(app, "no stores by name", "orders", "leave `store` out")


def test_a_relative_path_is_seen_from_the_spec(commands: CommandServer, folder: Path) -> None:
    (folder / "deep").mkdir()
    make_store(folder / "deep" / "state", {b"key": b"value"})
    before = tree_state(folder / "deep" / "state")
    spec = folder / "deep" / "migration.toml"
    sections = '[source]\nformat = "rocksdb.raw"\npath = "state"\n[target]\nformat = "rocksdb.raw"\npath = "../new"\n'
    spec.write_text(f'name = "test"\nwork_dir = "work"\n{sections}', encoding="utf-8")

    assert commands.run(["run", "--no-spark", "--quiet", str(spec)]).code == ExitCode.DONE

    assert (folder / "new" / "CURRENT").exists()
    assert tree_state(folder / "deep" / "state") == before
