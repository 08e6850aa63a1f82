"""`init` writes a spec that loads, plans and runs, from any directory of an application."""

import json
import os
import struct
from pathlib import Path

import pytest

from migrate import DualReadStore, RefusedError, SpecError, init_spec, load_spec, plan, run
from migrate.batch.preflight.directories import check_target
from migrate.batch.source.source import find_source
from tests.shared.commands import CommandServer
from tests.support import (
    KEY_VALUE,
    RAW,
    TIMESTAMPED,
    UNKNOWN_TIMESTAMP,
    copy_fixture,
    make_families,
    make_store,
    numbered,
    read_family,
    small_disk,
    tree_state,
)

STREAMIZ = "streamiz.timestamped-key-value"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fixture's application in `state`; the working directory is the one above."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").mkdir()
    return copy_fixture(tmp_path / "state")


def test_a_directory_becomes_a_spec_and_then_a_migrated_store(app: Path, commands: CommandServer) -> None:
    before = tree_state(app)
    done = commands.run(
        ["init", str(app), "--store", "orders", "--to", TIMESTAMPED, "--output", str(app.parents[1] / "my spec.toml")]
    )
    assert (done.code, done.err) == (0, "")
    for fact in (
        f"found: store orders of {app}: about 6,479 records in 3 store partitions",
        f"from:  {KEY_VALUE}",
        f"next: stateferry plan '{app.parents[1] / 'my spec.toml'}'",
    ):
        assert fact in done.out
    spec = load_spec(app.parents[1] / "my spec.toml")
    assert tree_state(app) == before
    dry = plan(spec)
    assert (dry.verdict.exit_code, dry.verdict.go) == (0, True)
    run(spec)
    (partition, *_) = sorted(spec.home.glob("new/*/0_0/orders"))
    assert read_family(partition, "keyValueWithTimestamp")[b"order-000005"].startswith(UNKNOWN_TIMESTAMP)


def test_the_comments_report_the_findings_and_the_alternatives(app: Path) -> None:
    text = init_spec("state/orders-app", store="orders", to=TIMESTAMPED, output=None).text
    for line in (
        'name = "orders-to-timestamped-key-value"  # the migration\'s own folder in work_dir',
        'work_dir = "stateferry-work"',
        "# Found: about 6,479 records in 3 store partitions,",
        '# "0_0/orders", "0_1/orders", "0_2/orders"; column families "default".',
        'path = "state/orders-app"',
        'store = "orders"',
        '# To migrate the other stores of this format with it, replace `store` by: stores = ["orders", "refunds"]',
        '# path = "state/orders-app-migrated"',
        "default_timestamp_ms = -1",
        '# function = "my_conversion:convert"',
    ):
        assert line in text.splitlines()
    assert not any(line.startswith("# allow") for line in text.splitlines())
    assert not (app.parents[1] / "migration.toml").exists()


def test_losses_are_named_and_not_yet_allowed(app: Path) -> None:
    report = init_spec(app, store="customers", to=KEY_VALUE)
    assert report.must_be_allowed == ("loss:timestamp",)
    assert report.spec is not None
    assert plan(load_spec(report.spec)).verdict.exit_code == 6
    report.spec.write_text(report.text.replace('# allow = ["loss:timestamp"]', 'allow = ["loss:timestamp"]'))
    assert plan(load_spec(report.spec)).verdict.exit_code == 0


@pytest.mark.parametrize(
    ("part", "note"),
    [
        ("..", "the one application below "),
        ("0_1", "0_1 is part of the application orders-app, all of whose tasks "),
        ("0_1/rocksdb", "0_1/rocksdb is part of the application orders-app"),
        ("0_1/rocksdb/orders", "0_1/rocksdb/orders is part of the application orders-app"),
    ],
)
def test_any_directory_of_one_application_leads_to_it(app: Path, part: str, note: str) -> None:
    store = None if part.endswith("orders") else "orders"
    report = init_spec(app / part, store=store, to=TIMESTAMPED, output=None)
    assert (report.source, report.store, len(report.store_partitions)) == (app, "orders", 3)
    assert report.note.startswith(note)


def test_several_applications_are_listed(app: Path) -> None:
    copy_fixture(app).rename(app.parent / "other")
    with pytest.raises(RefusedError) as refused:
        init_spec("state", store="orders", to=TIMESTAMPED)
    assert str(refused.value) == "state holds several applications\n  next: name one: state/orders-app, state/other"


def test_several_stores_are_listed_with_counts(app: Path) -> None:
    with pytest.raises(SpecError) as asked:
        init_spec(app, to=TIMESTAMPED)
    assert str(asked.value) == (
        f"{app} holds several stores:\n"
        f"  - customers: about 580 records in 3 store partitions, {TIMESTAMPED}\n"
        f"  - orders: about 6,479 records in 3 store partitions, {KEY_VALUE} or kafka-streams.versioned\n"
        f"  - refunds: about 580 records in 3 store partitions, {KEY_VALUE} or kafka-streams.versioned\n"
        "  next: choose one with --store NAME"
    )


def test_the_only_store_need_not_be_named(tmp_path: Path) -> None:
    make_store(tmp_path / "app/0_0/rocksdb/totals", numbered(5))
    make_store(tmp_path / "app/0_0/hourly/hourly.0", numbered(5))
    report = init_spec(tmp_path / "app", to=TIMESTAMPED, output=tmp_path / "spec.toml")
    assert (report.store, report.records) == ("totals", 5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"store": "order"}, "no key-value store 'order' in .*did you mean 'orders'"),
        ({"store": "orders", "to": "kafka-streams.timestamped-keyvalue"}, f"did you mean '{TIMESTAMPED}'"),
        ({"store": "orders", "to": "timestamped-key-value"}, f"did you mean '{TIMESTAMPED}'"),
        ({"store": "orders", "source_format": "kafka-stream.key-value"}, f"did you mean '{KEY_VALUE}'"),
        ({"store": "orders", "source_format": TIMESTAMPED}, f"is not {TIMESTAMPED}: it has no column family"),
        ({"store": "orders", "name": "Mine!"}, "name: should be lower-case letters, digits and hyphens, is 'Mine!'"),
        ({"store": "orders", "work_dir": "state/orders-app/work"}, "inside the application's state directory"),
        ({"store": "orders", "target_path": "state"}, r"\[target\] path .* exists already"),
        ({"store": "orders", "output": "state/orders-app/m.toml"}, "would lie inside the state directory"),
        ({"store": "orders", "output": "nowhere/m.toml"}, "nowhere is not a directory"),
    ],
)
def test_impossible_options_are_refused_and_no_file_is_written(app: Path, options: dict[str, str], said: str) -> None:
    before = tree_state(app.parents[1])
    with pytest.raises((RefusedError, SpecError), match=f"(?s){said}") as refused:
        init_spec(app, **({"to": TIMESTAMPED} | options))
    assert refused.value.hint
    assert tree_state(app.parents[1]) == before


def test_an_existing_file_is_never_overwritten(app: Path, commands: CommandServer) -> None:
    spec = app.parents[1] / "migration.toml"
    spec.write_text("mine")
    done = commands.run(["init", str(app), "--store", "orders", "--to", TIMESTAMPED, "--output", str(spec)])
    assert done.code == 2
    assert f"{spec} exists already" in done.message
    assert "name another file with --output" in done.message
    assert spec.read_text() == "mine"
    spec.unlink()
    spec.symlink_to(app / "nowhere")
    with pytest.raises(SpecError, match="exists already"):
        init_spec(app, store="orders", to=TIMESTAMPED, output=spec)
    assert not (app / "nowhere").exists()


def test_a_lone_directory_that_fits_two_formats_is_asked_about(tmp_path: Path) -> None:
    store = make_store(tmp_path / "lone", numbered(7, prefix=b"k"))  # too short for the keys of a windowed store
    with pytest.raises(SpecError) as asked:
        init_spec(store, to=TIMESTAMPED, output=None)
    fitting = (KEY_VALUE, "streamiz.key-value", "faust.table", "quix.key-value", RAW)
    assert f"(default) fit more than one format: {', '.join(fitting)}" in asked.value.message
    assert asked.value.hint == f"choose one: {' or '.join(f'--from {each}' for each in fitting)}"
    report = init_spec(store, to=TIMESTAMPED, source_format=KEY_VALUE, output=tmp_path / "spec.toml")
    assert (report.store, report.records, report.store_partitions) == (None, 7, ("lone",))
    assert plan(load_spec(tmp_path / "spec.toml")).verdict.exit_code == 0
    with pytest.raises(SpecError, match="is one RocksDB directory, without an application whose stores have names"):
        init_spec(store, store="lone", to=TIMESTAMPED, output=None)


def test_a_lone_directory_of_families_of_its_own_is_taken_as_it_is(tmp_path: Path) -> None:
    store = make_families(tmp_path / "lone", {"users": numbered(7)})
    report = init_spec(store, to=RAW, output=None)
    assert (report.source_format, report.records) == (RAW, 7)
    assert "# The formats are the same: without a function the records stay as they are." in report.text


def test_families_of_no_known_format_are_listed(tmp_path: Path) -> None:
    make_families(tmp_path / "app/0_0/rocksdb/odd", {"odd": numbered(2)})
    with pytest.raises(SpecError, match=r"store 'odd' \(default, odd\) are those of no known format of kafka-streams"):
        init_spec(tmp_path / "app", to=TIMESTAMPED, output=None)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere", "nowhere does not exist"),
        ("file", "file is not a directory"),
        ("empty", "empty is neither an application's state directory nor a RocksDB directory"),
        ("windows", "holds no key-value store"),
        ("work/mine/snapshot", "is Stateferry's own: the folder of the migration mine"),
    ],
)
def test_a_directory_that_cannot_be_migrated_is_refused_with_what_to_name(tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    make_store(tmp_path / "windows/0_0/hourly/hourly.0", numbered(2))
    (tmp_path / "work/mine/snapshot").mkdir(parents=True)
    (tmp_path / "work/mine/stateferry-folder.json").touch()
    with pytest.raises(RefusedError) as refused:
        init_spec(tmp_path / path, to=TIMESTAMPED, output=None)
    assert said in refused.value.message
    assert refused.value.hint


def test_relative_paths_are_relative_to_the_spec_and_absolute_ones_stay(app: Path) -> None:
    (app.parents[1] / "specs").mkdir()
    options = {"store": "orders", "to": TIMESTAMPED, "target_path": "state/new", "output": "specs/a.toml"}
    init_spec("state/orders-app", **options)
    spec = load_spec("specs/a.toml")
    assert str(spec.source.path) == "../state/orders-app"
    assert str(spec.target.path) == "../state/new"
    assert (spec.source_path, spec.target_path) == (app, app.parent / "new")
    init_spec(app, **(options | {"output": "specs/b.toml"}))
    assert load_spec("specs/b.toml").source.path == app


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "new\nline", "Zürich \N{SNOWMAN}", "~root", "#[x]", " "])
def test_odd_names_are_written_so_that_they_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make_store(tmp_path / name / f"0_0/rocksdb/{name}", numbered(3))
    init_spec(name if name.strip() else f"./{name}", to=TIMESTAMPED)
    spec = load_spec("migration.toml")
    assert (spec.source_path, spec.source.store) == (tmp_path / name, name)
    assert plan(spec).verdict.exit_code == 0


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", numbered(3))
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    store.rename(odd)
    with pytest.raises(SpecError, match="is not UTF-8, as a spec is"):
        init_spec(odd, to=RAW, source_format=RAW, output=None)


def test_the_name_of_a_started_migration_is_not_chosen_again(app: Path) -> None:
    (app.parents[1] / "stateferry-work/orders-to-timestamped-key-value").mkdir(parents=True)
    assert init_spec(app, store="orders", to=TIMESTAMPED, output=None).name == "orders-to-timestamped-key-value-2"


def test_the_work_dir_is_put_where_a_run_accepts_it(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work_dir is not in the application's directory, even if that is the working directory."""
    monkeypatch.chdir(app)
    report = init_spec(".", store="orders", to=TIMESTAMPED, output=None)
    assert report.work_dir == app.parents[1] / "stateferry-work"
    assert report.warnings == ()


def test_the_work_dir_is_on_the_state_s_own_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with small_disk(tmp_path / "disk", "64m") as disk:
        copy_fixture(disk)
        report = init_spec(disk / "orders-app", store="orders", to=TIMESTAMPED)
        assert report.work_dir == disk / "stateferry-work"
        spec = load_spec(tmp_path / "migration.toml")
        check_target(spec, find_source(spec))


def test_a_refusal_with_every_work_dir_becomes_a_warning(app: Path) -> None:
    (app / "0_0/rocksdb/orders/notes.txt").touch()
    report = init_spec(app, store="orders", to=TIMESTAMPED)
    (warning,) = report.warnings
    assert warning.startswith("a run would be refused: ")
    assert "notes.txt" in warning
    assert "# Warning: a run would be refused: " in report.text
    load_spec("migration.toml")


def test_a_store_that_a_lazy_adapter_is_at_is_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", numbered(50))
    with DualReadStore.open(store, source=KEY_VALUE, target=TIMESTAMPED) as opened:
        opened.converge(20, None)
    with pytest.raises(RefusedError, match="half converged"):
        init_spec(store, to=RAW, source_format=RAW, output=None)


def test_dash_prints_the_spec_and_nothing_else(app: Path, commands: CommandServer) -> None:
    arguments = ["init", str(app), "--store", "orders", "--to", TIMESTAMPED, "--output", "-"]
    printed = commands.run(arguments)
    report = json.loads(commands.run([*arguments, "--json"]).out)
    assert printed.code == 0
    assert printed.out == report["text"]
    assert (report["spec"], report["store"], report["source_format"]) == (None, "orders", KEY_VALUE)


def test_a_plain_store_of_streamiz_is_recognised_by_what_its_records_rule_out(tmp_path: Path) -> None:
    make_store(tmp_path / "app/0-0/rocksdb/totals", numbered(5))
    make_store(tmp_path / "app/0-0/rocksdb/prices", {b"k": struct.pack("<qi", 61000, 2) + b"v1"})
    report = init_spec(tmp_path / "app", to=STREAMIZ, store="totals", output=tmp_path / "spec.toml")
    assert (report.source_format, report.store_partitions) == ("streamiz.key-value", ("0-0/totals",))
    with pytest.raises(SpecError, match=f"fit more than one format: streamiz.key-value, {STREAMIZ}"):
        init_spec(tmp_path / "app", to=STREAMIZ, store="prices", output=None)


def test_a_windowed_store_is_the_one_that_can_become_a_windowed_one(tmp_path: Path) -> None:
    make_store(tmp_path / "app/0-0/rocksdb/totals", numbered(5))
    make_store(tmp_path / "app/0-0/hourly/hourly.0", {b"k" + struct.pack(">qi", 0, 0): b"v1"})
    report = init_spec(tmp_path / "app", to="streamiz.timestamped-window", output=tmp_path / "spec.toml")
    assert (report.store, report.source_format) == ("hourly", "streamiz.window")
    assert plan(load_spec(tmp_path / "spec.toml")).verdict.exit_code == 0
