"""Records that cannot be converted, and how many of them may be left out."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from migrate.errors import ExitCode
from tests.bad_input.support import Migration, check_clear, raw_records
from tests.support import read_family

REJECTED = 40
"""Every hundredth of the 4000 records, one of which the sample may see."""


@pytest.fixture
def picky(raw: Migration) -> Migration:
    """Its function cannot convert every hundredth record."""
    raw.module(
        """
        def convert(record):
            if record.key.endswith(b"50"):
                raise ValueError(f"no total in {record.key.decode()}")
            return record
        """
    )
    return raw


def kept() -> dict[bytes, bytes]:
    return {key: value for key, value in raw_records().items() if not key.endswith(b"50")}


def letters(migration: Migration) -> list[dict[str, Any]]:
    """The rows of the Delta table."""
    table = DeltaTable(str(migration.home / "dead-letters"))
    return [row for file in table.file_uris() for row in pq.ParquetFile(file).read(use_threads=False).to_pylist()]


def test_dead_letters_hold_key_value_chunk_and_reason(picky: Migration) -> None:
    picky.set("run", on_reject="dead-letter", max_rejects=REJECTED)
    report = picky.completes({".": kept()})
    folder = Path(report["dead_letters"])
    assert folder == picky.home / "dead-letters"
    rows = sorted(letters(picky), key=lambda row: row["key"])
    assert {row["key"]: row["value"] for row in rows} == {
        key: value for key, value in raw_records().items() if key.endswith(b"50")
    }
    assert len(rows) == REJECTED
    assert {row["store_partition"] for row in rows} == {"state"}
    assert {row["family"] for row in rows} == {"default"}
    assert len({row["chunk"] for row in rows}) > 1
    assert rows[0]["reason"] == "the function raised ValueError: no total in key-00000050"


def test_dead_letters_are_written_once_however_often_the_command_runs(picky: Migration) -> None:
    picky.set("run", on_reject="dead-letter", max_reject_share=0.0)
    picky.fails(ExitCode.FAILED, "max_reject_share allows 0.00%")
    picky.fails(ExitCode.FAILED, "max_reject_share allows 0.00%")
    picky.set("run", max_reject_share=1.0)
    picky.completes({".": kept()})
    assert picky.run().code == ExitCode.DONE
    assert len(letters(picky)) == REJECTED


def test_rejects_that_nothing_accepts_are_not_published_and_cost_no_second_rewriting(picky: Migration) -> None:
    picky.set("run", on_reject="dead-letter")
    picky.fails(ExitCode.FAILED, "nothing was published", "40 records could not be converted", "--accept-rejects 40")
    told = picky.run(verb="status")
    assert "40 records could not be converted and are left out" in told.out
    assert picky.run("--accept-rejects", "39").code == ExitCode.FAILED
    done = picky.run("--accept-rejects", "40", "--json")
    assert done.code == ExitCode.DONE
    report = json.loads(done.out)
    assert report["chunks_done_before"] == report["chunks_planned"]
    assert report["concerns"][0]["accepted"] == "--accept-rejects 40"
    text = " ".join(picky.run(verb="report").out.split())
    for words in ("accepted: --accept-rejects 40, by ", str(picky.home / "dead-letters"), "key binary, value binary"):
        assert words in text


def test_rejects_that_nothing_accepts_are_not_cut_over(picky: Migration) -> None:
    picky.set("run", on_reject="skip")
    del picky.spec["target"]["path"]
    done = picky.run("--cutover")
    assert picky.named("stateferry cutover SPEC --accept-rejects 40")[0] in " ".join(done.out.split())
    check_clear(done, ExitCode.FAILED, "nothing was cut over", "--accept-rejects 40")
    assert picky.run("--accept-rejects", "39", verb="cutover").code == ExitCode.FAILED
    assert read_family(picky.source) == raw_records()
    assert picky.run("--cutover", "--accept-rejects", "40").code == ExitCode.DONE
    assert read_family(picky.source) == kept()


def test_what_nobody_has_verified_is_refused_unless_told_otherwise(raw: Migration) -> None:
    raw.set("run", verify="off")
    raw.refused('[run] verify = "off"', "--unverified")
    assert raw.run("--unverified").code == ExitCode.DONE
    assert "the new stores are not verified (accepted: --unverified, by " in raw.run(verb="status").out
