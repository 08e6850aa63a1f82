"""Another number of store partitions: what is refused, by `plan` and by `run`, before anything is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from formats.partitioners import PARTITIONERS
from migrate import CheckReport, RefusedError, Spec, SpecError, plan, run
from migrate.show.output import Output
from migrate.show.page.dry_run_page import dry_run_page
from migrate.show.text.plan_text import show_plan
from tests.shared.windowed import window_key
from tests.support import KEY_VALUE, make_families, make_spec, make_store, raises

KEYS = [b"key-%04d" % number for number in range(600)]
PARTITIONER = """
import itertools
_calls = itertools.count()
def same(key, partitions):
    return sum(key) % partitions
def outside(key, partitions):
    return partitions
def text(key, partitions):
    return "0"
def changing(key, partitions):
    return next(_calls) % partitions
def failing(key, partitions):
    raise ValueError("no such customer")
"""


def _application(folder: Path, many: int = 2, of: Callable[[bytes, int], int] = PARTITIONERS["murmur2"]) -> Path:
    for number in range(many):
        records = {key: b"value" for key in KEYS if of(key, many) == number}
        make_store(folder / f"0_{number}" / "rocksdb" / "orders", records)
    return folder


def _spec(tmp_path: Path, partitions: int = 3, **sections: Any) -> Spec:  # noqa: ANN401
    sections["source"] = {"store": "orders"} | sections.get("source", {})
    sections["target"] = {"partitions": partitions} | sections.get("target", {})
    sections["conversion"] = {"allow": ["changelog"]} | sections.get("conversion", {})
    return make_spec(tmp_path, tmp_path / "shop", source_format=KEY_VALUE, target_format=KEY_VALUE, **sections)


def _refused(spec: Spec, name: str, match: str) -> CheckReport:
    """The check that fails in a plan, and ends a run before anything is written."""
    check = next(each for each in plan(spec).checks if each.name == name)
    assert (check.outcome, check.exit_code) == ("failed", 6 if name != "partitions.places" else check.exit_code)
    raises((RefusedError, SpecError), match, run, spec)
    assert not list(spec.home.glob("plan*"))
    assert spec.target_path is not None
    assert not spec.target_path.exists()
    return check


def test_what_is_sound_is_said(tmp_path: Path) -> None:
    _application(tmp_path / "shop")
    report = plan(_spec(tmp_path))
    assert report.partitions is not None
    assert (report.partitions.old, report.partitions.new, report.partitions.partitioner) == (2, 3, "murmur2")
    assert "the input topics (not known without [changelog]) again with 3 partitions" in report.partitions.steps[2]
    text, page = "\n".join(show_plan(report, Output())), dry_run_page(report)
    assert "2 -> 3, by murmur2" in text
    assert "5. start it on " in " ".join(text.split())
    assert "2 -&gt; 3, by murmur2" in page
    checks = {each.name: each for each in report.checks}
    assert report.verdict.go
    assert checks["partitions.tasks"].detail.startswith("2 partitions become 3; that the old ones are all 2, only this")
    assert checks["partitions.stores"].detail == "orders"
    assert checks["partitions.places"].detail.startswith("murmur2 puts ")
    assert checks["partitions.input"].outcome == "warning"
    assert "an application with exactly-once wipes the store at its first start" in report.changelog


def test_a_missing_task(tmp_path: Path) -> None:
    app = _application(tmp_path / "shop", 4)
    (app / "0_2").rename(tmp_path / "elsewhere")
    check = _refused(_spec(tmp_path), "partitions.tasks", "orders has the tasks 0, 1, 3 here, and not 2: each new task")
    assert check.fix.startswith("bring the task directories of all hosts to one volume")


def test_a_task_that_one_store_lacks(tmp_path: Path) -> None:
    app = _application(tmp_path / "shop", 3)
    make_store(app / "0_0" / "rocksdb" / "refunds", {b"a": b"b"})
    spec = _spec(tmp_path, 2, source={"store": None, "stores": ["orders", "refunds"]})
    _refused(spec, "partitions.tasks", "refunds has the tasks 0 here, and not 1, 2")


def test_the_number_that_there_is(tmp_path: Path) -> None:
    _application(tmp_path / "shop")
    _refused(_spec(tmp_path, 2), "partitions.tasks", r"partitions = 2: the stores have 2 partitions already")


def test_a_store_that_the_spec_does_not_name(tmp_path: Path) -> None:
    app = _application(tmp_path / "shop")
    make_families(app / "0_1" / "by-hour" / "by-hour.0", {"default": {window_key(b"a", 5): b"1"}})
    make_store(app / "1_0" / "rocksdb" / "of-another-sub-topology", {b"a": b"b"})
    check = _refused(
        _spec(tmp_path), "partitions.stores", "have stores that the spec does not name: by-hour; the tasks"
    )
    assert '{ name = "by-hour", format = "..." }' in check.fix


def test_stores_of_two_sub_topologies(tmp_path: Path) -> None:
    app = _application(tmp_path / "shop")
    for number in range(2):
        make_store(app / f"1_{number}" / "rocksdb" / "refunds", {})
    spec = _spec(tmp_path, source={"store": None, "stores": ["orders", "refunds"]})
    _refused(spec, "partitions.tasks", "the stores are of several sub-topologies: 0, 1")


@pytest.mark.parametrize("task", ["global", "__orders__/0_0"])
def test_a_global_store_and_a_named_topology(tmp_path: Path, task: str) -> None:
    make_store(tmp_path / "shop" / task / "rocksdb" / "orders", {b"a": b"b"})
    _refused(_spec(tmp_path), "partitions.tasks", f"{task}/orders is of a global store or a named topology")


def test_keys_of_another_producer(tmp_path: Path) -> None:
    _application(tmp_path / "shop", of=PARTITIONERS["crc32"])
    match = r"the key .* of the store 'orders' is in task 0_\d, and murmur2 of 2 partitions puts it into 0_\d"
    check = _refused(_spec(tmp_path), "partitions.places", match)
    assert check.fix == 'every sampled key is where crc32 puts it: [source] partitioner = "crc32"'
    assert plan(_spec(tmp_path, source={"partitioner": "crc32"})).verdict.go


@pytest.mark.parametrize(
    ("function", "match"),
    [
        ("outside", "'places:outside' answers 3 for the key .* and 3 partitions"),
        ("text", "'places:text' answers '0' for the key"),
        ("changing", "'places:changing' answers . and then . for the same key"),
        ("failing", "'places:failing' fails for the key .*: ValueError: no such customer"),
        ("missing", "the module 'places' .* has no function 'missing'"),
    ],
)
def test_a_partitioner_that_is_none(tmp_path: Path, function: str, match: str) -> None:
    (tmp_path / "places.py").write_text(PARTITIONER)
    _application(tmp_path / "shop", of=lambda key, many: sum(key) % many)
    _refused(_spec(tmp_path, source={"partitioner": f"places:{function}"}), "partitions.places", match)


def test_a_partitioner_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "places.py").write_text(PARTITIONER)
    _application(tmp_path / "shop", of=lambda key, many: sum(key) % many)
    report = plan(_spec(tmp_path, source={"partitioner": "places:same"}))
    assert report.verdict.go


def test_a_store_that_would_lose_its_changelog(tmp_path: Path) -> None:
    _application(tmp_path / "shop")
    spec = _spec(tmp_path, conversion={"allow": []})
    check = _refused(spec, "conversion.allowed", "no changelog is written for the new number of partitions")
    assert check.fix.endswith('[conversion] allow = ["changelog"]')


def test_a_system_that_puts_keys_anywhere(tmp_path: Path) -> None:
    make_store(tmp_path / "shop" / "tables" / "orders-0.db", {b"a": b"b"})
    spec = make_spec(
        tmp_path,
        tmp_path / "shop",
        source_format="faust.table",
        target_format="faust.table",
        source={"store": "orders"},
        target={"partitions": 3},
        conversion={"allow": ["changelog"]},
    )
    check = next(each for each in plan(spec).checks if each.name == "partitions.tasks")
    assert (check.outcome, check.detail) == (
        "failed",
        "[target] partitions: Faust is not known to spread keys over tasks",
    )
