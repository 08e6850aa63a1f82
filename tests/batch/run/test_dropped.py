"""What the function drops is a loss: refused unless the spec allows it, counted, and shown wherever the rest is."""

import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from migrate import Spec, cutover, migrate_store, plan, replay, report, run, status, verify
from migrate.errors import DroppedError, RefusedError
from migrate.show.output import Output
from migrate.show.page.run_page import run_page
from migrate.show.text.plan_text import show_plan
from migrate.show.text.report_text import show_run, show_status
from tests.support import RAW, TIMESTAMPED, make_families, make_spec, make_store, numbered, raw_spec, read_family

RECORDS = numbered(300)
FORGOTTEN = """
from dataclasses import replace
def convert(record):
    new = replace(record, value=record.value * 2)
"""
IN_ONE_BRANCH = """
from dataclasses import replace
def convert(record):
    if record.key.endswith(b"7"):
        new = replace(record, value=b"seven")
    else:
        return record
"""
MENDED = """
from dataclasses import replace
def convert(record):
    return replace(record, value=b"seven") if record.key.endswith(b"7") else record
"""
KEPT = {key: value for key, value in RECORDS.items() if not key.endswith(b"7")}
ALLOWED: dict[str, Any] = {"conversion": {"allow": ["drop"]}}
FIRST = '"key-00000007", "key-00000017", "key-00000027"'
SAID = f"30 records were dropped by the function, 270 kept; the first keys: {FIRST}"


def spec_of(folder: Path, code: str, *, published: bool = True, **sections: Any) -> Spec:  # noqa: ANN401 - TOML's own types
    """A spec with this function over the store, which is made where it is not there."""
    if not (folder / "store").exists():
        make_store(folder / "store", RECORDS)
    (folder / "conversion.py").write_text(code, encoding="utf-8")
    conversion = {"function": "conversion:convert", **sections.pop("conversion", {})}
    run_section = {"chunk_size": "3 KiB", **sections.pop("run", {})}
    target = {"path": "new" if published else None}
    return raw_spec(folder, folder / "store", conversion=conversion, run=run_section, target=target)


def said(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


PLAIN_OUTPUT = Output(no_color=True)


@pytest.mark.parametrize("code", [FORGOTTEN, IN_ONE_BRANCH], ids=["forgotten", "in-one-branch"])
def test_a_forgotten_return_ends_the_run_until_the_spec_allows_it(code: str, tmp_path: Path) -> None:
    planned = plan(spec_of(tmp_path, code))
    assert (planned.verdict.exit_code, planned.verdict.go) == (6, False)
    assert "dropped by the function" in planned.verdict.sentence
    assert "lack a return" in planned.verdict.next_step
    with pytest.raises(DroppedError, match="it returns None") as caught:
        run(spec_of(tmp_path, code))
    assert caught.value.exit_code == 3
    assert "lack a return" in caught.value.hint
    assert not (tmp_path / "new").exists()
    done = run(spec_of(tmp_path, code, **ALLOWED))
    kept = KEPT if code == IN_ONE_BRANCH else {}
    assert (done.totals.records_in, done.totals.records_out) == (300, len(kept))
    assert done.totals.dropped == done.verification.dropped == 300 - len(kept)
    assert read_family(tmp_path / "new") == kept


def test_it_is_mended_by_a_replay(tmp_path: Path) -> None:
    with pytest.raises(DroppedError):
        run(spec_of(tmp_path, IN_ONE_BRANCH))
    done = replay(spec_of(tmp_path, MENDED))
    assert (done.totals.dropped, done.verification.records) == (0, 300)
    assert read_family(tmp_path / "new") == {**RECORDS, **{key: b"seven" for key in RECORDS.keys() - KEPT.keys()}}


def test_a_replay_converts_again_what_was_dropped_with_permission(tmp_path: Path) -> None:
    assert run(spec_of(tmp_path, IN_ONE_BRANCH, published=False, **ALLOWED)).totals.dropped == 30
    assert replay(spec_of(tmp_path, MENDED, published=False, **ALLOWED)).totals.dropped == 0


@pytest.mark.parametrize("mode", ["full", "digest"])
def test_plan_run_status_and_page_count_and_show_what_is_dropped(mode: str, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, IN_ONE_BRANCH, published=False, **ALLOWED, run={"verify": mode})
    planned = plan(spec)
    assert (planned.verdict.go, planned.tried and planned.tried.dropped) == (True, 30)
    assert "of all 300 records 270 were converted, 30 dropped by the function" in planned.verdict.sentence
    (check,) = [each for each in planned.checks if each.name == "conversion.dropped"]
    assert (check.outcome, check.detail) == ("warning", SAID)
    text = said(show_plan(planned, PLAIN_OUTPUT))
    assert "270 converted, 30 dropped by the function" in text
    assert f"lost {SAID}" in text
    done = run(spec)
    (concern,) = done.concerns
    assert (concern.kind, concern.sentence, concern.accepted) == ("dropped", SAID, '[conversion] allow = ["drop"]')
    for lines in (show_run(done, PLAIN_OUTPUT), show_status(status(spec), PLAIN_OUTPUT)):
        assert "300 read, 270 written, 30 dropped by the function" in said(lines)
        assert f"{mode}: 270 records equal; 30 dropped by the function" in said(lines)
        assert SAID in said(lines)
    page = run_page(report(spec))
    assert "30 dropped by the function" in page
    assert "first keys" in page
    assert "Accepted" in page


@pytest.mark.parametrize("how", [{"max_dropped": 29}, {"max_dropped_share": 0.09}, {"max_dropped": 0}])
def test_a_bound_holds_over_all_chunks_and_holds_afterwards(how: dict[str, float], tmp_path: Path) -> None:
    planned = plan(spec_of(tmp_path, IN_ONE_BRANCH, run=how))
    assert planned.verdict.exit_code == 6
    with pytest.raises(DroppedError, match="|".join([*how, "nothing in the spec"])):
        run(spec_of(tmp_path, IN_ONE_BRANCH, run=how))
    assert not (tmp_path / "new").exists()
    enough = {"max_dropped": 30, "max_dropped_share": 0.1}
    assert plan(spec_of(tmp_path, IN_ONE_BRANCH, run=enough)).verdict.go
    done = run(spec_of(tmp_path, IN_ONE_BRANCH, run=enough))
    assert done.totals.dropped == 30
    assert done.concerns[0].accepted == "[run] max_dropped = 30 and [run] max_dropped_share = 0.1"


def test_a_bound_holds_where_drops_are_allowed_too(tmp_path: Path) -> None:
    with pytest.raises(DroppedError, match="max_dropped allows 29"):
        run(spec_of(tmp_path, IN_ONE_BRANCH, **ALLOWED, run={"max_dropped": 29}))


def test_what_is_allowed_no_more_does_not_go_live(tmp_path: Path) -> None:
    run(spec_of(tmp_path, IN_ONE_BRANCH, published=False, **ALLOWED))
    refused = spec_of(tmp_path, IN_ONE_BRANCH, published=False)
    assert "drop" in status(refused).next_step
    with pytest.raises(DroppedError, match="30 records were dropped by the function"):
        cutover(refused)
    with pytest.raises(DroppedError, match="30 records were dropped by the function"):
        cutover(spec_of(tmp_path, IN_ONE_BRANCH, published=False, run={"max_dropped": 29}))
    assert verify(refused).concerns[0].accepted == ""
    assert cutover(spec_of(tmp_path, IN_ONE_BRANCH, published=False, **ALLOWED)).state == "cut over"


def test_a_run_stopped_by_drops_cannot_go_live(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, IN_ONE_BRANCH, published=False, run={"max_dropped_share": 0.05})
    with pytest.raises(DroppedError, match=r"max_dropped_share allows 5\.00%"):
        run(spec)
    with pytest.raises(RefusedError, match="not complete"):
        cutover(spec)


def test_an_empty_store_is_planned_only_where_all_may_go(tmp_path: Path) -> None:
    refused = plan(spec_of(tmp_path, FORGOTTEN, **ALLOWED)).verdict
    assert refused.exit_code == 6
    assert "nothing is kept: 300 records were dropped by the function, 0 kept" in refused.sentence
    assert "max_dropped_share = 1" in refused.next_step
    assert plan(spec_of(tmp_path, FORGOTTEN, run={"max_dropped_share": 1})).verdict.go
    few = tmp_path / "few"
    few.mkdir()
    make_store(few / "store", numbered(99))
    assert plan(spec_of(few, FORGOTTEN, **ALLOWED)).verdict.go


def test_in_code_it_is_allowed_by_an_argument(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(20))
    drop = partial(migrate_store, source, tmp_path / "new", source=RAW, target=RAW, convert=lambda record: None)
    with pytest.raises(DroppedError, match="it returns None"):
        drop()
    done = drop(may_drop=True)
    assert (done.totals.dropped, done.totals.records_out) == (20, 0)


VERSIONED = "kafka-streams.versioned"
KEYS = [b"key-%03d" % number for number in range(60)]
LATEST = {struct.pack(">q", -1) + key: struct.pack(">q", 90_000) + b"now" for key in KEYS}
FORMER = {
    struct.pack(">q", 1) + key: struct.pack(">qqqiqi", 90_000, 61_000, 70_000, 4, 61_000, 4) + b"thenthen"
    for key in KEYS[::3]
}
NO_FORMER = """
def convert(record):
    if record.value == b"now":
        return record
"""


@pytest.mark.parametrize(
    ("target", "allow", "counts"),
    [(VERSIONED, [], (40, 0, 60)), (TIMESTAMPED, ["loss:history"], (0, 20, 60))],
    ids=["kept", "lost-by-the-format"],
)
def test_former_values_that_the_function_drops_count_apart_from_those_that_the_format_loses(
    target: str, allow: list[str], counts: tuple[int, int, int], tmp_path: Path
) -> None:
    make_families(tmp_path / "app/0_0/rocksdb/prices", {"default": dict(sorted((LATEST | FORMER).items()))})
    (tmp_path / "app/0_0/.checkpoint").write_text("0\n1\napp-prices-changelog 0 7\n", encoding="utf-8")
    (tmp_path / "conversion.py").write_text(NO_FORMER, encoding="utf-8")

    def spec(*more: str) -> Spec:
        allowed = ["changelog", "unclean-source", *allow, *more]
        return make_spec(
            tmp_path,
            tmp_path / "app",
            source_format=VERSIONED,
            target_format=target,
            source={"store": "prices"},
            conversion={"function": "conversion:convert", "allow": allowed},
            run={"chunk_size": "1 KiB", "verify": "digest"},
        )

    if counts[0]:
        assert plan(spec()).verdict.exit_code == 6
        with pytest.raises(DroppedError):
            run(spec())
    planned = plan(spec("drop"))
    tried = planned.tried
    assert tried is not None
    said = f"{counts[0]} dropped by the function" if counts[0] else f"{counts[1]} not carried by the new format"
    assert f"; of all 80 records 60 were converted, {said}" in planned.verdict.sentence
    assert (tried.dropped, tried.not_carried, tried.converted) == counts
    totals = run(spec("drop")).totals
    assert (totals.dropped, totals.not_carried, totals.records_out) == counts
