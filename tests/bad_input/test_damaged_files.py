"""Files of the old store that are damaged, cut short, gone or unreadable."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import Migration, bound_by_mode_bits, check_clear, expected_orders
from tests.support import flip_byte

DATABASE = "0_1/rocksdb/orders"
SST = f"{DATABASE}/000009.sst"


def overwrite(file: Path, content: bytes) -> None:
    """As `cp backup file` does: the same inode."""
    file.write_bytes(content)


def replace(file: Path, content: bytes) -> None:
    """As backup tools do: another file under the name, with the old one's times."""
    new = file.with_name("restored")
    new.write_bytes(content)
    shutil.copystat(file, new)
    new.rename(file)


@pytest.mark.parametrize("mend", [overwrite, replace])
@pytest.mark.parametrize("snapshot", ["link", "copy"])
def test_a_flipped_bit_in_a_data_block_fails_its_chunk_and_a_restored_file_completes(
    app: Migration, snapshot: str, mend: Callable[[Path, bytes], None]
) -> None:
    app.set("run", chunk_size=60_000, snapshot=snapshot)
    content = (app.source / SST).read_bytes()
    flip_byte(app.source / SST, 20_000)
    app.fails(ExitCode.FAILED, "0_1/orders", "column family 'default'", 'the key "order-', "restore", "rerun")
    app.fails(ExitCode.FAILED, "0_1/orders")
    mend(app.source / SST, content)
    report = app.completes(expected_orders())
    assert report["chunks_done_before"] > 0


@pytest.mark.parametrize("name", ["000009.sst", "MANIFEST-000005", "CURRENT", "OPTIONS-000007", "000004.log", "LOCK"])
def test_a_file_that_this_user_may_not_read_is_refused(app: Migration, name: str) -> None:
    (app.source / DATABASE / name).chmod(0)
    app.fails(ExitCode.REFUSED, f"{DATABASE}/{name}", "application's user", before=bound_by_mode_bits())
    assert not app.home.exists()


@pytest.mark.parametrize("name", ["orders-app", "orders-app/0_1", "orders-app/0_1/rocksdb", f"orders-app/{DATABASE}"])
def test_a_directory_that_this_user_may_not_enter_is_refused(app: Migration, name: str) -> None:
    path = app.folder / name
    mode = path.stat().st_mode
    path.chmod(0)
    outcome = app.run(before=bound_by_mode_bits())
    planned = app.run(verb="plan", before=bound_by_mode_bits())
    path.chmod(mode)
    assert planned.code == ExitCode.REFUSED
    assert "no go: a run would be refused: " in " ".join(planned.out.split())
    assert name in planned.out
    check_clear(outcome, ExitCode.REFUSED, "cannot ", name, "application's user")
    app.completes(expected_orders())


def test_a_work_dir_that_this_user_may_not_write_is_refused(app: Migration) -> None:
    app.spec_file.touch()
    app.folder.chmod(0o555)
    app.set("conversion", default_timestamp_ms=-1)
    app.fails(ExitCode.REFUSED, f"cannot write to {app.folder}", "work_dir", before=bound_by_mode_bits())
    app.folder.chmod(0o755)
    app.completes(expected_orders())


def test_a_snapshot_that_went_missing_is_taken_again(app: Migration) -> None:
    app.set("run", chunk_size=60_000)
    content = (app.source / SST).read_bytes()
    flip_byte(app.source / SST, 20_000)
    app.fails(ExitCode.FAILED, "0_1/orders")
    shutil.rmtree(app.home / "snapshot")
    (app.source / SST).write_bytes(content)
    app.completes(expected_orders())
