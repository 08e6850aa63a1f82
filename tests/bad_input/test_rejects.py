"""Records that cannot be converted, and how many of them may be left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from migrate.errors import ExitCode
from tests.bad_input.support import Migration, check_clear, raw_records
from tests.support import make_store, open_store, read_family

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


def test_fail_is_the_default_and_names_the_first_record_and_its_reason(picky: Migration) -> None:
    picky.fails(
        ExitCode.FAILED,
        "state chunk 0 [first, ",
        'the key "key-00000050" (value of 20 bytes)',
        "the function raised ValueError: no total in key-00000050",
        'on_reject = "skip" or "dead-letter"',
    )

    picky.set("run", on_reject="skip", max_rejects=REJECTED)
    assert picky.completes({".": kept()})["totals"]["rejected"] == REJECTED


def test_skip_leaves_them_out_and_counts_them(picky: Migration) -> None:
    picky.set("run", on_reject="skip", max_rejects=REJECTED)

    totals = picky.completes({".": kept()})["totals"]

    assert (totals["records_in"], totals["records_out"], totals["rejected"]) == (4000, 3960, REJECTED)
    assert f"{REJECTED} rejected" in picky.run().out


@pytest.mark.parametrize("on_reject", ["skip", "dead-letter"])
@pytest.mark.parametrize("cap", [0, 2, REJECTED - 1])
def test_more_than_max_rejects_fail_and_a_raised_cap_completes(picky: Migration, on_reject: str, cap: int) -> None:
    picky.set("run", on_reject=on_reject, max_rejects=cap)

    picky.fails(ExitCode.FAILED, f"max_rejects allows {cap}", "raise the cap", "finished chunks are kept")
    assert not (picky.home / "new").exists()

    picky.set("run", max_rejects=REJECTED)
    report = picky.completes({".": kept()})
    assert report["totals"]["rejected"] == REJECTED
    assert (report["chunks_done_before"] > 0) == (cap > 2)


def test_more_than_max_reject_share_fail_and_a_raised_cap_completes(picky: Migration) -> None:
    picky.set("run", on_reject="skip", max_reject_share=0.0099)

    picky.fails(ExitCode.FAILED, "40 of 4000 records", "(1.00%)", "max_reject_share allows 0.99%", "raise the cap")
    assert not (picky.home / "new").exists()

    picky.set("run", max_reject_share=0.01)
    assert picky.completes({".": kept()})["chunks_done_before"] > 0


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


def test_dropping_is_not_rejecting(raw: Migration) -> None:
    raw.module("def convert(record):\n    return None if record.key.endswith(b'50') else record\n")
    raw.set("run", max_rejects=0, max_dropped=REJECTED)

    totals = raw.completes({".": kept()})["totals"]

    assert (totals["dropped"], totals["rejected"]) == (REJECTED, 0)


def test_all_records_dropped_leave_an_empty_store(raw: Migration) -> None:
    raw.module("def convert(record):\n    return None\n")
    raw.set("conversion", allow=["drop"])

    totals = raw.completes({".": {}})["totals"]

    assert (totals["dropped"], totals["records_out"]) == (4000, 0)


@pytest.fixture
def without_function(raw: Migration) -> Migration:
    """One value of its store is not the number that it should be."""
    records = {key: (1).to_bytes(8, "big") for key in raw_records()}
    shutil.rmtree(raw.source)
    make_store(raw.source, {**records, b"key-00001234": b"odd"})
    raw.set("conversion", allow=["looks-converted"])
    raw.set("conversion.value", **{"from": {"serde": "int64"}, "to": {"serde": "int64", "endian": "little"}})
    return raw


@pytest.mark.parametrize(
    "how", [{}, {"on_reject": "skip", "max_rejects": 0}, {"on_reject": "skip", "max_reject_share": 0}]
)
def test_where_there_is_no_function_none_is_to_be_mended(without_function: Migration, how: dict[str, Any]) -> None:
    without_function.set("run", **how)

    outcome = without_function.fails(ExitCode.FAILED, "next: ", "[source] format", "the serdes of [conversion]")
    assert "function" not in outcome.message

    tried = json.loads(without_function.run("--json", "--full", verb="plan").out)
    assert tried["verdict"]["exit_code"] == ExitCode.FAILED
    assert "function" not in tried["verdict"]["next_step"]


def test_where_there_is_no_function_none_is_doubted(raw: Migration) -> None:
    raw.set("conversion.value", **{"from": {"serde": "int32"}, "to": {"serde": "int64"}})

    outcome = raw.refused("none of ", "sampled records", "does [conversion.value] name the serde")
    assert "function" not in outcome.message


def test_where_the_old_records_can_be_read_their_format_is_not_doubted(raw: Migration) -> None:
    number = {"serde": "int64"}
    shutil.rmtree(raw.source)
    make_store(raw.source, dict.fromkeys(raw_records(), (1 << 40).to_bytes(8, "big")))
    raw.set("conversion.value", **{"from": number, "to": {"serde": "int32"}})
    outcome = raw.refused("is not a signed 32-bit number", "name in [conversion.key] or [conversion.value] a serde")
    assert "function" not in outcome.message

    raw.set("conversion.value", **{"from": number, "to": number})
    raw.module("from dataclasses import replace\ndef convert(record):\n    return replace(record, value='text')\n")
    outcome = raw.refused("expected a whole number, got str", "mend what the function returns, or name in [conversion")
    assert "[source] format" not in outcome.message


def test_where_a_function_fails_for_all_its_file_and_line_are_named(raw: Migration) -> None:
    raw.module("def convert(record):\n    raise ValueError('odd')\n")

    raw.refused("none of ", "the function raised ValueError: odd (", ".py:2)", "mend the function")


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


def test_a_mismatch_that_verify_found_holds_back_the_cutover(raw: Migration) -> None:
    del raw.spec["target"]["path"]
    assert raw.run().code == ExitCode.DONE
    with open_store(next(raw.home.glob("new/*/state"))) as database:
        database[b"extra"] = b"record"
    check_clear(raw.run("--no-spark", verb="verify"), ExitCode.MISMATCH, "1 extra")
    raw.set("run", verify="off")

    check_clear(raw.run("--unverified", verb="cutover"), ExitCode.MISMATCH, "found the new stores wrong")
    check_clear(raw.run("--unverified", "--cutover"), ExitCode.MISMATCH, 'with [run] verify = "full"')

    assert read_family(raw.source) == raw_records()
    raw.set("run", verify="full")
    assert raw.run("--cutover").code == ExitCode.DONE
