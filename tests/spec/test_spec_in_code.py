"""A spec that is built in code: the same as one from a file, with the same messages."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from migrate import (
    ConversionSection,
    RefusedError,
    RunSection,
    SourceChangedError,
    SourceSection,
    Spec,
    SpecError,
    StateRecord,
    TargetSection,
    cutover,
    doctor,
    load_spec,
    plan,
    report,
    rollback,
    run,
    status,
    verify,
)
from tests.support import KEY_VALUE, RAW, TIMESTAMPED, make_store, numbered, read_family

SOURCE = {"format": KEY_VALUE, "path": "orders-app", "store": "orders"}
TARGET = {"format": TIMESTAMPED}


def _spec(folder: Path, **sections: Any) -> Spec:  # noqa: ANN401
    return Spec(**{"name": "x", "work_dir": "work", "source": SOURCE, "target": TARGET, "base_dir": folder, **sections})


def shorten(record: StateRecord) -> StateRecord:
    return replace(record, value=record.value[:4])


def lengthen(record: StateRecord) -> StateRecord:
    return replace(record, value=record.value + b"!")


def test_it_is_the_spec_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "migration.toml"
    file.write_text(
        f'name = "x"\nwork_dir = "work"\nsource = {{format = "{KEY_VALUE}", path = "orders-app", store = "orders"}}\n'
        f'target.format = "{TIMESTAMPED}"\nrun = {{chunk_size = "1 MiB", time_budget = "90m"}}'
    )
    in_sections = Spec(
        name="x",
        work_dir="work",
        source=SourceSection(format=KEY_VALUE, path=Path("orders-app"), store="orders"),
        target=TargetSection(format=TIMESTAMPED),
        run=RunSection(chunk_size=1 << 20, time_budget=timedelta(minutes=90)),  # type: ignore[arg-type]
        base_dir=tmp_path,
    )
    in_dicts = _spec(tmp_path, run={"chunk_size": "1 MiB", "time_budget": "90m"})
    assert in_dicts == in_sections == load_spec(file)


def test_paths_are_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = Spec(name="x", work_dir="work", source=SOURCE, target=TARGET)
    elsewhere = Spec(name="x", work_dir="work", source=SOURCE, target=TARGET, base_dir="specs")
    monkeypatch.chdir("/")
    assert (spec.home, spec.source_path) == (tmp_path / "work/x", tmp_path / "orders-app")
    assert elsewhere.home == tmp_path / "specs/work/x"


@pytest.mark.parametrize(
    ("sections", "mistake"),
    [
        ({"name": "My Orders"}, "  - name: should be lower-case letters, digits and hyphens, is 'My Orders'"),
        ({"source": SOURCE | {"stroe": "x"}}, "unknown key 'source.stroe': did you mean 'store'?"),
        ({"source": {"format": KEY_VALUE}}, "'source.path' is missing"),
        ({"colour": 1}, "unknown key 'colour'"),
        ({"target": {"format": "kafka-streams.timestamped"}}, "[target] unknown format 'kafka-streams.timestamped'"),
        ({"target": {"format": "timestamped-key-values"}}, "did you mean 'kafka-streams.timestamped-key-value'?"),
        ({"run": {"time_budget": timedelta(-1)}}, "run.time_budget: a duration is a number and a unit"),
        ({"conversion": {"function": "convert"}}, "conversion.function: should be \"module:function\", is 'convert'"),
        ({"conversion": {"function": 5}}, "conversion.function: should be text, in quotes, is 5"),
        ({"conversion": {"function": shorten, "files": ("a.csv",)}}, "conversion: `py_files` and `files` need"),
        ({"work_dir": "a\udc80"}, "is not UTF-8"),
    ],
)
def test_a_mistake_is_a_spec_error_that_names_the_key(sections: dict[str, Any], mistake: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        _spec(tmp_path, **sections)
    assert mistake in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "bootstrap",
    [
        *("", "kafka", "kafka:", ":9092", "kafka:0", "kafka:65536", "kafka:x", "a b:9092", " kafka:9092", "::1:9092"),
        *("http://kafka:9092", "kafka:9092,", "kafka:9092,,b:9092", "kafka:9092 b:9092", "kafka:9092/", "kafka:9092\n"),
    ],
)
def test_a_malformed_bootstrap_is_a_mistake_in_the_spec(bootstrap: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"changelog\.bootstrap: .* is not host:port"):
        _spec(tmp_path, changelog={"bootstrap": bootstrap})


@pytest.mark.parametrize(
    "bootstrap",
    ["kafka-1.example:9092", "a:1,b:65535", "a:9092, b_c:9092", "[::1]:9092", "127.0.0.1:9092", "SASL_SSL://a:9093"],
)
def test_brokers_are_named_as_clients_read_them(bootstrap: str, tmp_path: Path) -> None:
    changelog = _spec(tmp_path, changelog={"bootstrap": bootstrap}).changelog
    assert changelog is not None and changelog.bootstrap == bootstrap


def test_every_mistake_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        Spec(name="X", source={"format": 1}, base_dir=tmp_path)  # type: ignore[call-arg]
    assert str(caught.value).count("\n  - ") == 5


def test_a_section_by_itself_names_its_mistakes_too() -> None:
    with pytest.raises(SpecError, match=r"SourceSection has mistakes:\n  - unknown key 'stroe': did you mean 'store'"):
        SourceSection(format=KEY_VALUE, path=Path("x"), stroe="orders")  # type: ignore[call-arg]
    with pytest.raises(SpecError, match=r"ConversionSection has mistakes:\n  - `py_files` and `files` need"):
        ConversionSection(function=shorten, files=(Path("a.csv"),))


def test_a_migration_with_a_function_from_plan_to_rollback(tmp_path: Path) -> None:
    store = make_store(tmp_path / "db", numbered(100))
    spec = _spec(
        tmp_path, source={"format": RAW, "path": store}, target={"format": RAW}, conversion={"function": shorten}
    )
    assert plan(spec).verdict.go
    assert doctor(spec).exit_code == 0
    assert run(spec).state == "verified"
    assert verify(spec).verification.ok
    assert cutover(spec).state == "cut over"
    assert (status(spec).state, report(spec).state) == ("cut over", "cut over")
    assert read_family(store) == {key: value[:4] for key, value in numbered(100).items()}
    assert rollback(spec).state == "rolled back"


def test_another_function_is_another_migration(tmp_path: Path) -> None:
    database = {"source": {"format": RAW, "path": make_store(tmp_path / "db", numbered(10))}, "target": {"format": RAW}}
    assert run(_spec(tmp_path, **database, conversion={"function": shorten})).state == "verified"
    with pytest.raises(SourceChangedError, match="changed since: function"):
        run(_spec(tmp_path, **database, conversion={"function": lengthen}))


def test_a_function_without_a_name_is_not_sent_to_executors(tmp_path: Path) -> None:
    spec = _spec(tmp_path, conversion={"function": shorten})
    for verb in (run, verify, doctor):
        with pytest.raises(SpecError, match="does not reach Spark's executors"):
            verb(spec, master="local[2]")
    assert not spec.home.exists()


def test_a_link_that_leads_to_itself_is_a_path_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    spec = _spec(tmp_path, source={"format": RAW, "path": "loop"}, target={"format": RAW, "path": "new"})
    with pytest.raises(RefusedError, match="loop does not exist"):
        run(spec)
