"""Whole migrations with functions that change, drop, reject, and misbehave."""

from dataclasses import replace
from pathlib import Path

import pytest

from formats import StateRecord
from migrate import ExitCode, MigrationError, RefusedError, migrate_store, run
from migrate.errors import ChunkFailedError, RejectedError
from migrate.spec.spec import Spec
from tests.support import (
    KEY_VALUE,
    RAW,
    TIMESTAMPED,
    make_spec,
    make_store,
    numbered,
    raw_spec,
    read_delta,
    read_families,
    read_family,
)

NEW_FAMILY = "keyValueWithTimestamp"


def test_a_function_drops_and_changes_records(tmp_path: Path) -> None:
    records = {b"key-%04d" % number: b"value %d" % number for number in range(1000)}
    source = make_store(tmp_path / "old", records)
    spec = make_spec(
        tmp_path,
        source,
        source_format=KEY_VALUE,
        target_format=TIMESTAMPED,
        conversion={"function": "tests.shared.conversions:shout", "allow": ["changelog", "drop", "unclean-source"]},
        run={"chunk_size": "8 KiB"},
    )
    report = run(spec)
    assert (report.totals.records_in, report.totals.dropped, report.totals.records_out) == (1000, 100, 900)
    assert report.totals.chunks > 2
    timestamp = (5).to_bytes(8, "big")
    expected = {key: timestamp + value.upper() for key, value in records.items() if not key.endswith(b"0")}
    assert read_family(tmp_path / "new", NEW_FAMILY) == expected


def test_a_function_that_drops_everything_leaves_an_empty_store(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(3000))
    report = migrate_store(source, tmp_path / "new", source=RAW, target=RAW, convert=lambda record: None, may_drop=True)
    assert (report.totals.dropped, report.totals.records_out) == (3000, 0)
    assert read_families(tmp_path / "new") == {"default": {}}


def test_a_timestamp_that_the_function_gives_in_vain_is_refused_though_formats_are_named(tmp_path: Path) -> None:
    def convert(record: StateRecord) -> StateRecord:
        return replace(record, timestamp_ms=5)

    source = make_store(tmp_path / "old", numbered(10))
    with pytest.raises(RefusedError, match="a timestamp, which the new format has no room for"):
        migrate_store(source, tmp_path / "new", source=KEY_VALUE, target=KEY_VALUE, convert=convert)
    migrate_store(source, tmp_path / "new", source=KEY_VALUE, target=TIMESTAMPED, convert=convert)
    assert read_family(tmp_path / "new", NEW_FAMILY)[b"key-00000000"][:8] == (5).to_bytes(8, "big")


def test_a_function_beside_the_spec_is_found(tmp_path: Path) -> None:
    (tmp_path / "beside_the_spec.py").write_text(
        "from dataclasses import replace\n\ndef convert(record):\n    return replace(record, value=record.value * 2)\n",
        encoding="utf-8",
    )
    source = make_store(tmp_path / "old", numbered(10))
    run(raw_spec(tmp_path, source, conversion={"function": "beside_the_spec:convert"}))
    assert read_family(tmp_path / "new") == {key: value * 2 for key, value in numbered(10).items()}


def _rejecting(tmp_path: Path, **how: object) -> Spec:
    source = tmp_path / "old"
    if not source.exists():
        make_store(source, numbered(1000))
    function = {"function": "tests.shared.conversions:picky"}
    return raw_spec(tmp_path, source, conversion=function, run={"chunk_size": "8 KiB", **how})


def test_a_reject_fails_the_run_and_names_the_record(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="the function raised ValueError: no sevens") as caught:
        run(_rejecting(tmp_path))
    assert caught.value.exit_code is ExitCode.FAILED
    assert "key-00000" in caught.value.message
    assert not (tmp_path / "new").exists()


def test_rejects_are_skipped_and_counted(tmp_path: Path) -> None:
    report = run(_rejecting(tmp_path, on_reject="skip", max_reject_share=0.1))
    assert (report.totals.rejected, report.totals.records_out, report.dead_letters) == (100, 900, None)
    assert set(read_family(tmp_path / "new")) == {key for key in numbered(1000) if not key.endswith(b"7")}


def test_rejects_are_kept_as_dead_letters(tmp_path: Path) -> None:
    report = run(_rejecting(tmp_path, on_reject="dead-letter", max_rejects=100))
    assert report.totals.rejected == 100
    assert report.dead_letters is not None
    rows = read_delta(report.dead_letters)
    kept = {row["key"]: row["value"] for row in rows}
    assert len(rows) == len(kept) == 100
    assert kept == {key: value for key, value in numbered(1000).items() if key.endswith(b"7")}
    assert {row["reason"] for row in rows} == {"the function raised ValueError: no sevens"}
    assert {(row["store_partition"], row["family"]) for row in rows} == {("old", "default")}


@pytest.mark.parametrize("how", [{"max_rejects": 99}, {"max_reject_share": 0.099}])
@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_too_many_rejects_end_the_run(policy: str, how: dict[str, float], tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match=next(iter(how))):
        run(_rejecting(tmp_path, on_reject=policy, **how))
    assert not (tmp_path / "new").exists()
    report = run(_rejecting(tmp_path, on_reject=policy, max_rejects=100, max_reject_share=0.1))
    assert (report.totals.rejected, report.totals.records_out) == (100, 900)


@pytest.mark.parametrize(
    ("function", "words"), [("reverse_order", "changes the order of keys"), ("merge_tens", "two old keys become one")]
)
@pytest.mark.parametrize("chunk_size", ["1 MiB", "2 KiB"])
def test_keys_must_stay_in_order_and_apart(function: str, words: str, chunk_size: str, tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(1000))
    conversion = {"function": f"tests.shared.conversions:{function}"}
    with pytest.raises(MigrationError, match=words):
        run(raw_spec(tmp_path, source, conversion=conversion, run={"chunk_size": chunk_size}))
    assert not (tmp_path / "new").exists()


def test_keys_of_two_chunks_must_not_become_one(tmp_path: Path) -> None:
    """Every record is a block, and every block a chunk: no chunk alone can see the collision."""
    source = make_store(tmp_path / "old", {bytes([120, letter, 49]): bytes(5000) for letter in b"acegikm"})
    conversion = {"function": "tests.shared.conversions:first_byte"}
    with pytest.raises(ChunkFailedError, match='maps two to one: "x" does not come after "x"'):
        run(raw_spec(tmp_path, source, conversion=conversion, run={"chunk_size": 1}))
    assert not (tmp_path / "new").exists()


def test_an_impure_function_is_refused(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(10))
    with pytest.raises(RefusedError, match="not pure"):
        run(raw_spec(tmp_path, source, conversion={"function": "tests.shared.conversions:impure"}))
