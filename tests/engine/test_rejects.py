"""Records that cannot be converted: fail, skip, keep; and their caps."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from migrate.batch.home import DEAD_LETTERS
from migrate.batch.ledger.dead_letters import write_dead_letters
from migrate.engine.rejects import CountRejects, FailOnReject, KeepRejects, reject_schema
from migrate.errors import ExitCode, RejectedError
from migrate.model.receipt import Receipt
from tests.shared.builders import receipt
from tests.support import read_delta


def test_fail_names_the_record_and_the_reason() -> None:
    with pytest.raises(RejectedError) as caught:
        FailOnReject("0_1/orders chunk 7").add("default", b"k\x00", b"12345", "too short")
    message = caught.value.message
    for part in ("0_1/orders chunk 7", "'default'", "0x6b00", "value of 5 bytes", "too short"):
        assert part in message
    assert caught.value.exit_code is ExitCode.FAILED
    assert "on_reject" in caught.value.hint


@pytest.mark.parametrize("rejects", [FailOnReject("here"), CountRejects("here", 0)])
def test_a_very_long_reason_is_cut_in_the_message(rejects: FailOnReject | CountRejects) -> None:
    with pytest.raises(RejectedError) as caught:
        rejects.add("default", b"k", b"v", "no" * 500_000, "convert.py:7")
    assert len(caught.value.message) < 1000
    assert "convert.py:7" in caught.value.message


def test_skip_counts() -> None:
    rejects = CountRejects("here")
    for _ in range(5000):
        rejects.add("default", b"k", b"v", "no")
    assert rejects.count == 5000


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_skip_stops_beyond_its_cap(limit: int) -> None:
    rejects = CountRejects("here", limit)
    for _ in range(limit):
        rejects.add("default", b"k", b"v", "no")
    with pytest.raises(RejectedError, match=rf"\b{limit + 1}\b.*max_rejects allows {limit}\b"):
        rejects.add("default", b"last", b"v", "no")


def _keep(tmp_path: Path, limit: int | None = None) -> KeepRejects:
    return KeepRejects("here", "0_0/orders", tmp_path / "a.parquet", limit)


def test_kept_rejects_are_whole(tmp_path: Path) -> None:
    rejects = _keep(tmp_path)
    records = [(b"%d" % number, bytes([number % 256]) * number) for number in range(2500)]
    for key, value in records:
        rejects.add("default", key, value, f"reason {key!r}")
    assert rejects.finish()
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.schema == reject_schema()
    rows = table.to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == records
    assert rows[7] == {
        "store_partition": "0_0/orders",
        "family": "default",
        "key": b"7",
        "value": b"\x07" * 7,
        "reason": "reason b'7'",
        "place": "",
    }
    assert rejects.count == 2500


@pytest.mark.parametrize(
    ("count", "value", "reason", "least"),
    [(10, bytes(3 << 20), "large", 3), (20, b"v", "no" * 500_000, 2)],
    ids=["large records", "very long reasons"],
)
def test_rejects_do_not_pile_up_in_memory(count: int, value: bytes, reason: str, least: int, tmp_path: Path) -> None:
    rejects = _keep(tmp_path)
    for number in range(count):
        rejects.add("default", b"%d" % number, value, reason)
    assert rejects.finish()
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups >= least


def test_nothing_rejected_leaves_no_file(tmp_path: Path) -> None:
    assert not _keep(tmp_path).finish()
    assert list(tmp_path.iterdir()) == []


def test_kept_rejects_have_a_cap_too(tmp_path: Path) -> None:
    rejects = _keep(tmp_path, 1)
    rejects.add("default", b"a", b"", "no")
    with pytest.raises(RejectedError, match="max_rejects allows 1"):
        rejects.add("default", b"b", b"", "no")


def _letters(home: Path) -> list[dict[str, object]]:
    rows = read_delta(home / DEAD_LETTERS)
    return sorted(rows, key=lambda row: (row["chunk"], row["key"]))


def _receipt_with_reject(tmp_path: Path, number: int) -> Receipt:
    rejects = KeepRejects("here", "db", tmp_path / f"{number}.parquet", None)
    rejects.add("default", b"k%d" % number, b"v", "no", "odd.py:5")
    rejects.finish()
    return receipt(number=number, rejects_file=f"{number}.parquet")


def test_dead_letters_are_appended_once_per_attempt(tmp_path: Path) -> None:
    receipts = [_receipt_with_reject(tmp_path, number) for number in range(3)]
    assert write_dead_letters(tmp_path, receipts[:2]) == tmp_path / DEAD_LETTERS
    write_dead_letters(tmp_path, receipts)
    write_dead_letters(tmp_path, receipts)
    assert [(row["chunk"], row["attempt"], row["key"]) for row in _letters(tmp_path)] == [
        (number, f"{number:06d}-abc", b"k%d" % number) for number in range(3)
    ]


def test_without_rejects_there_is_no_table(tmp_path: Path) -> None:
    assert write_dead_letters(tmp_path, [receipt()]) is None
    assert list(tmp_path.iterdir()) == []


def test_reasons_that_differ_in_their_numbers_are_one() -> None:
    rejects = CountRejects("here")
    for number in (46, 47, 48):
        rejects.add("default", b"k%d" % number, b"v", f"column {number} of 0x0{number}", "odd.py:5")
    rejects.add("default", b"k", b"v", "column 49 of 0x1", "odd.py:9")
    several, one = rejects.reasons
    assert (several.reason, several.records, several.place) == ("column # of #", 3, "odd.py:5")
    assert [example.reason for example in several.examples] == ["column 46 of 0x046", "column 47 of 0x047"]
    assert (one.reason, one.records, one.place) == ("column 49 of 0x1", 1, "odd.py:9")


def test_dead_letters_of_chunks_that_were_rewritten_leave_the_table(tmp_path: Path) -> None:
    receipts = [_receipt_with_reject(tmp_path, number) for number in range(2)]
    write_dead_letters(tmp_path, receipts)
    write_dead_letters(tmp_path, receipts[1:])
    assert [(row["key"], row["place"]) for row in _letters(tmp_path)] == [(b"k1", "odd.py:5")]
    assert write_dead_letters(tmp_path, [receipt()]) is None
    assert not (tmp_path / DEAD_LETTERS).exists()
