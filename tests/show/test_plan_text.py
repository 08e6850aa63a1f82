"""The report of `plan` for people: what matters comes first, and what differs is seen."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from formats import StateRecord
from migrate import Spec
from migrate.dry_run.dry_run_report import DryRunReport
from migrate.show.output import Output
from migrate.show.page.dry_run_page import dry_run_page
from migrate.show.text.plan_text import show_plan
from tests.dry_run.support import planned
from tests.support import KEY_VALUE, RAW, TIMESTAMPED, make_families, make_spec, make_store

SAME = "a long description " * 40


@pytest.fixture(autouse=True)
def _as_wide_as_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def _spec(folder: Path, value: Callable[[int], bytes], **sections: object) -> Spec:
    make_store(folder / "store", {b"%05d" % number: value(number) for number in range(30)})
    return make_spec(folder, folder / "store", source_format=RAW, target_format=RAW, **sections)


def _lines(report: DryRunReport) -> list[str]:
    return show_plan(report, Output())


def paid(record: StateRecord) -> StateRecord:
    return replace(record, value=record.value.replace(b"open", b"paid"))


@pytest.mark.parametrize("tail", [b"", b" and more" * 100], ids=["short end", "long end"])
@pytest.mark.parametrize("head", [0, 3, 100, 900, 5000])
def test_before_and_after_are_cut_where_they_first_differ(head: int, tail: bytes, tmp_path: Path) -> None:
    value = "ü".encode() * (head // 2) + b"open" + tail
    report = planned(_spec(tmp_path, lambda _: value, conversion={"function": paid, "allow": ["changelog"]}))
    example = report.tried.examples[0]
    assert "open" in example.value.text and "paid" in example.new_value.text
    assert b"open".hex() in example.value.hex and b"paid".hex() in example.new_value.hex
    lines = _lines(report)
    at = next(number for number, line in enumerate(lines) if line.startswith("    before"))
    for line, found in zip(lines[at : at + 4], ("open", b"open".hex(), "paid", b"paid".hex()), strict=True):
        assert found in line
        assert len(line) <= 120
    for line in (lines[at + 1], lines[at + 3]):
        assert bytes.fromhex(line.strip(" .").removeprefix("0x")), "cut between bytes"
    assert lines[at].index("open") == lines[at + 2].index("paid"), "one below the other"
    marked = "".join(dry_run_page(report).split())
    assert "<mark>6f70656e" in marked and "<mark>70616964" in marked, "the page marks it"


def test_decoded_values_are_cut_where_they_first_differ(tmp_path: Path) -> None:
    sides = {"from": {"serde": "json"}, "to": {"serde": "json"}}
    value = json.dumps({"text": SAME, "status": "open"}).encode()
    spec = _spec(tmp_path, lambda _: value, conversion={"value": sides, "function": _settled, "allow": ["changelog"]})
    report = planned(spec)
    for fields, word in ((report.tried.examples[0].old_fields, "open"), (report.tried.examples[0].fields, "paid")):
        assert word in dict(fields)["value"]
        assert len(dict(fields)["value"]) < len(value) / 2
    assert '"status":"paid"' in "\n".join(_lines(report)).replace('": "', '":"')


def _settled(record: StateRecord) -> StateRecord:
    return replace(record, value={**record.value, "status": "paid"})


def test_the_verdict_and_what_failed_come_first(tmp_path: Path) -> None:
    report = planned(_spec(tmp_path, lambda n: b"x" * n, run={"chunk_size": "1 KiB"}, conversion={"function": _refuse}))
    assert report.verdict.exit_code != 0
    lines = _lines(report)
    assert lines[1] == report.verdict.sentence
    assert lines[2].startswith("next: ")
    failed = [check.claim for check in report.checks if check.outcome == "failed"]
    assert failed
    checks = next(number for number, line in enumerate(lines) if line == "Migration")
    assert all(any(claim in line for line in lines[3:checks]) for claim in failed)
    assert not any(line.startswith("FAILED") for line in lines[checks:]), "each is said once"
    assert lines[-2:] == lines[1:3], "a terminal shows the end of a long report"


def _refuse(_: StateRecord) -> StateRecord:
    raise ValueError("no")


def test_an_estimate_with_equal_bounds_is_one_number(tmp_path: Path) -> None:
    report = planned(_spec(tmp_path, lambda n: b"x" * n))
    even = {"exact": False, "at_least": 30, "at_most": 30}
    found = report.found.model_copy(update=even)
    text = "\n".join(_lines(report.model_copy(update={"found": found})))
    assert "about 30 in 1 store partition" in text and "between" not in text
    assert "30 to 30" not in dry_run_page(report.model_copy(update={"found": found}))
    odd = report.model_copy(update={"found": found.model_copy(update={"at_most": 31})})
    assert "about 30 (between 30 and 31)" in "\n".join(_lines(odd))


def test_one_position_is_one_number_everywhere(tmp_path: Path) -> None:
    application = tmp_path / "orders-app"
    make_families(application / "0_0/rocksdb/orders", {"default": {b"k": b"v"}})
    (application / "0_0/.checkpoint").write_text("0\n1\norders-app-orders-changelog 0 500082\n")
    report = planned(
        make_spec(tmp_path, application, source_format=KEY_VALUE, target_format=TIMESTAMPED, source={"store": "orders"})
    )
    text = "\n".join(_lines(report))
    assert "position 500083 of orders-app-orders-changelog-0" in text
    assert "500082" not in text
    assert "500,083" in dry_run_page(report) and "500,082" not in dry_run_page(report)
    (position,) = report.found.databases[0].positions
    assert (position.offset, position.position) == (500_082, 500_083), "the owner's number, and the broker's"
