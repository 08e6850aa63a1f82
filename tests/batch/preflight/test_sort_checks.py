"""What goes with sorted keys, and what is refused before anything is written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formats import StateRecord
from formats.partitioners import PARTITIONERS
from migrate import CheckReport, RefusedError, Spec, plan, run
from migrate.batch.context import Context
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.preflight.sort_checks import check_goes_with_sorting
from tests.shared.windowed import make_segments, retentions, window_key, windowed_spec
from tests.support import KEY_VALUE, TIMESTAMPED, make_families, make_spec, make_store, raises

MURMUR2 = PARTITIONERS["murmur2"]
KEYS = [b"%d" % number for number in range(300)]
TO_NUMBERS = {"key": {"from": {"serde": "string"}, "to": {"serde": "int64"}}, "allow": ["changelog"]}


def as_number(record: StateRecord) -> StateRecord:
    return replace(record, key=int(record.key))


def rising(record: StateRecord) -> StateRecord:
    """Keeps the order of keys."""
    return replace(record, key=record.key + b"!")


def _application(folder: Path, many: int = 2) -> Path:
    for number in range(many):
        make_store(
            folder / f"0_{number}" / "rocksdb" / "orders", {key: b"v" for key in KEYS if MURMUR2(key, many) == number}
        )
    return folder


def _spec(tmp_path: Path, partitions: int | None, **sections: Any) -> Spec:  # noqa: ANN401
    sections["source"] = {"store": "orders"} | sections.get("source", {})
    sections["target"] = {"partitions": partitions} | sections.get("target", {})
    given = {"function": as_number} | TO_NUMBERS | sections.pop("conversion", {})
    formats = {"source_format": KEY_VALUE, "target_format": KEY_VALUE}
    return make_spec(tmp_path, _application(tmp_path / "shop"), **formats, conversion=given, **sections)


def _check(spec: Spec, name: str = "run.sort") -> CheckReport:
    return next(each for each in plan(spec).checks if each.name == name)


def _refused(spec: Spec, match: str, name: str = "run.sort") -> CheckReport:
    """The check that fails in a plan, and ends a run before anything is written."""
    check = _check(spec, name)
    assert (check.outcome, check.exit_code) == ("failed", 6)
    raises(RefusedError, match, run, spec)
    assert not list(spec.home.glob("plan*"))
    return check


@pytest.mark.parametrize("new", [2, 3])
def test_records_get_to_the_partition_of_their_new_key(tmp_path: Path, new: int) -> None:
    """The old number is one like another then, and any old task may have some of any new one."""
    spec = _spec(tmp_path, new)
    assert _check(spec).detail == "yes, by Spark: a new key may belong to another store partition than its old one"
    assert "each record gets to the one of its new key" in _check(spec, "partitions.tasks").detail
    found = Preflight(Context(spec).loaded(), "plan").databases
    assert [each.store_partition for each in found] == [f"0_{number}/orders" for number in range(new)]
    for each in found:
        assert each.share is not None
        assert (each.share.is_rekeyed, each.share.groups, len(each.inputs)) == (True, 1, 2)


def test_nobody_is_asked_for_a_word_where_new_keys_are_placed(tmp_path: Path) -> None:
    names = {each.name: each for each in plan(_spec(tmp_path, 3)).checks}
    assert "conversion.places" not in names
    assert names["conversion.rejects"].detail == f"0 of {len(KEYS)} records cannot be converted"
    again = _spec(tmp_path / "without", None)
    refused = _refused(again, "may belong to another partition and its task", "conversion.allowed")
    assert "[target] partitions, also with the number that there is" in refused.fix
    assert (
        _check(
            _spec(tmp_path / "word", None, conversion={"allow": ["changelog", "unclean-source", "key-change"]})
        ).outcome
        == "ok"
    )


def test_values_alone_need_no_sorting(tmp_path: Path) -> None:
    spec = _spec(tmp_path, 3, conversion={"key": None, "function": lambda record: record})
    assert _check(spec).detail == "no: chunks are written in the order of their old keys"
    found = Preflight(Context(spec).loaded(), "plan").databases
    assert not any(each.share is None or each.share.is_rekeyed for each in found)


def test_the_number_that_there_is_and_no_other_key(tmp_path: Path) -> None:
    spec = _spec(tmp_path, 2, conversion={"key": None, "function": None})
    _refused(spec, "the stores have 2 partitions already", "partitions.tasks")


def test_placed_keys_are_sorted_in_any_case(tmp_path: Path) -> None:
    """The order that a function keeps is no longer that of one task."""
    conversion = {"key": None, "function": rising, "allow": ["changelog", "unclean-source", "key-change"]}
    assert _check(_spec(tmp_path, 3, conversion=conversion)).detail.startswith("yes, by Spark")
    assert _check(_spec(tmp_path / "one", None, conversion=conversion)).detail.startswith("no: ")
    spec = _spec(tmp_path / "asked", 3, conversion=conversion, run={"sort": False})
    assert _refused(spec, r"\[run\] sort = false", "conversion.allowed").fix == "leave [run] sort out"


def test_a_store_in_upgrade_mode(tmp_path: Path) -> None:
    for number in range(2):
        store = tmp_path / "shop" / f"0_{number}" / "rocksdb" / "orders"
        make_families(store, {"default": {b"1": bytes(8) + b"v"}, "keyValueWithTimestamp": {b"2": bytes(8) + b"v"}})
    spec = make_spec(
        tmp_path,
        tmp_path / "shop",
        source_format=TIMESTAMPED,
        target_format=TIMESTAMPED,
        source={"store": "orders"},
        conversion={"function": as_number} | TO_NUMBERS | {"allow": ["changelog", "unclean-source", "key-change"]},
    )
    assert _refused(spec, "has records in 'default' yet").fix.startswith(
        "migrate it without a change of its keys first"
    )


def test_segments_that_are_cut_otherwise(tmp_path: Path) -> None:
    hour = 3_600_000
    make_segments(tmp_path / "app/0_0/win", {window_key(b"%d" % n, n * hour): b"v" for n in range(4)}, hour)
    spec = windowed_spec(
        tmp_path,
        conversion={"function": as_number} | TO_NUMBERS | {"allow": ["changelog", "unclean-source", "key-change"]},
        **retentions(4 * hour, 8 * hour, segment_ms=hour),
    )
    assert _refused(spec, "retention_ms or segment_ms cut other segments").fix.startswith("change those in a spec")


BROKER = {"bootstrap": "broker:9092"}


@pytest.mark.parametrize(
    ("sections", "is_behind", "match"),
    [
        ({"run": {"source": "snapshot"}, "target": {"path": None}}, False, 'source = "snapshot"'),
        ({"changelog": {**BROKER, "missing": "rebuild"}}, False, 'missing = "rebuild"'),
        (
            {"changelog": {**BROKER, "timestamps": "changelog"}, "target": {"format": TIMESTAMPED}},
            False,
            'timestamps = "changelog"',
        ),
        ({"changelog": BROKER}, True, "no catch-up goes with it"),
    ],
)
def test_what_does_not_go_with_sorted_keys(
    tmp_path: Path, sections: dict[str, Any], is_behind: bool, match: str
) -> None:
    spec = _spec(tmp_path, None, **sections)
    error = raises(RefusedError, match, check_goes_with_sorting, Context(spec), (), is_behind=is_behind)
    assert error.message.startswith("new keys that have to be sorted do not go with this: ")
    assert error.hint
    check_goes_with_sorting(Context(_spec(tmp_path / "fine", None, changelog=BROKER)), (), is_behind=False)
