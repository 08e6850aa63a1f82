"""Stores, keys, values and places that nobody expects."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import migrate
from tests.dry_run.support import checks, failed, planned
from tests.support import (
    KEY_VALUE,
    TIMESTAMPED,
    make_families,
    make_runs,
    make_spec,
    make_store,
    numbered,
    raw_spec,
    small_disk,
)

ODD_KEYS = [
    b"",
    b"\0",
    b"\xff",
    b"\xff" * 64,
    b"\xff" * 65_536,
    b"a" * 65_536,
    b"<script>",
    "schlüssel".encode(),
    b"\xc3",
]


@pytest.mark.parametrize("full", [False, True])
def test_odd_keys_and_empty_values(tmp_path: Path, full: bool) -> None:
    records = dict.fromkeys(ODD_KEYS, b"") | {b"m%05d" % number: b"" for number in range(2000)}
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", records))
    largest = 0
    for sample in (1, 5, 100, 10_000):
        report = planned(spec, sample=sample, full=full)
        assert report.verdict.exit_code == 0
        assert report.found.at_least <= len(records) <= report.found.at_most
        assert report.found.key_sizes is not None
        largest = report.found.key_sizes.largest
        report.model_dump_json()
    assert largest == 65_536


def test_a_collision_of_unprintable_keys_is_shown_in_hex(tmp_path: Path) -> None:
    spec = raw_spec(
        tmp_path,
        make_store(tmp_path / "state", {b"\x00\x01": b"", b"\x00\x02": b""}),
        conversion={"function": "conversion:convert", "allow": ["key-change"]},
    )
    (tmp_path / "conversion.py").write_text(
        "from dataclasses import replace\ndef convert(record):\n    return replace(record, key=record.key[:1])\n"
    )
    for full in (False, True):
        detail = failed(planned(spec, full=full))["conversion.keys"].detail
        assert "0x0001 and 0x0002" in detail


def test_one_huge_value_is_read_a_few_times_at_most(tmp_path: Path) -> None:
    size = 48 << 20
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", {b"a": b"", b"huge": bytes(size), b"z": b""}))
    report = planned(spec, full=True)
    assert report.found.value_sizes is not None
    assert (report.found.records, report.found.value_sizes.largest) == (3, size)
    assert report.cost.worker_bytes > 4 * size


def test_a_store_without_records_is_a_go(tmp_path: Path) -> None:
    for full in (False, True):
        report = planned(raw_spec(tmp_path, make_store(tmp_path / f"{full}", {})), full=full)
        assert report.verdict.exit_code == 0
        assert (report.found.records, report.found.exact, report.found.key_sizes) == (0, True, None)
        assert report.cost.new_bytes == 0


def test_the_family_with_the_records_is_timed_not_the_empty_first_one(tmp_path: Path) -> None:
    report = planned(raw_spec(tmp_path, make_families(tmp_path / "state", {"zebra": numbered(20_000)})))
    assert report.cost.records_per_second is not None
    assert report.cost.new_bytes > 20_000 * 20
    assert 0 <= report.cost.rewrite_seconds < report.cost.total_seconds


def test_many_store_partitions_with_a_low_limit_of_open_files(tmp_path: Path) -> None:
    """RocksDB directories are opened one after the other."""
    application = tmp_path / "app"
    for task in range(120):
        make_runs(application / f"0_{task}/rocksdb/orders", [{"default": numbered(5)}] * 2)
        (application / f"0_{task}/.checkpoint").write_text("0\n0\n")
    spec = tmp_path / "spec.toml"
    spec.write_text(
        f'name = "x"\nwork_dir = "work"\n[source]\nformat = "{KEY_VALUE}"\npath = "app"\nstore = "orders"\n'
        f'[target]\nformat = "{TIMESTAMPED}"\n'
    )
    program = (
        "import resource, sys\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "from migrate import load_spec, plan\nreport = plan(load_spec(sys.argv[1]))\n"
        "print(report.verdict.exit_code, report.found.store_partitions, report.found.records)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, spec],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.split() == ["0", "120", "600"], done.stderr


def test_a_clock_that_is_behind_is_reported_and_stops_no_run(tmp_path: Path) -> None:
    store = make_store(tmp_path / "state", numbered(100))
    sst = next(store.glob("*.sst"))
    os.utime(sst, (sst.stat().st_mtime + 86_400,) * 2)
    report = planned(raw_spec(tmp_path, store))
    assert report.verdict.exit_code == 0
    assert "clock" in checks(report, "warning")


def test_a_full_disk_for_temporary_files_costs_the_measured_rate_alone(tmp_path: Path, temporary: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", numbered(20_000)))
    with small_disk(temporary / "disk", "96k") as disk, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(disk))
        report = planned(spec)
    assert (report.verdict.exit_code, report.verdict.go) == (0, True)
    assert report.cost.records_per_second is None
    assert report.tried.converted > 1000


def test_what_could_not_be_read_is_never_called_exact(tmp_path: Path) -> None:
    """One of two store partitions is damaged."""
    application = tmp_path / "app"
    for task in ("0_0", "0_1"):
        make_store(application / task / "rocksdb/orders", numbered(20_000))
        (application / task / ".checkpoint").write_text("0\n0\n")
    sst = next((application / "0_1/rocksdb/orders").glob("*.sst"))
    content = bytearray(sst.read_bytes())
    content[len(content) // 2] ^= 0xFF
    sst.write_bytes(content)
    spec = make_spec(
        tmp_path, application, source_format=KEY_VALUE, target_format=TIMESTAMPED, source={"store": "orders"}
    )
    report = planned(spec, full=True)
    assert report.found.store_partitions == 2
    assert not report.found.exact
    assert report.found.at_least <= 40_000 <= report.found.at_most
    assert "0_1" in failed(report)["source.read"].detail
    assert report.verdict.exit_code == 3


def test_after_the_end_nothing_is_left_to_do(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", numbered(100)))
    migrate.run(spec)
    verdict = migrate.plan(spec).verdict
    assert verdict.sentence.startswith("nothing to do: ")
    assert "stop the application" not in verdict.next_step
