"""Damage that comes after the verification: noticed before the old stores go, and while there is a way back."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from migrate import RefusedError, Spec, cutover, finalize, rollback, run, verify
from migrate.cli.main import main
from migrate.errors import ExitCode
from tests.batch.switch.support import DATA, FIRST, LATE, Application
from tests.shared.windowed import MINUTE, PLAIN, window_key, windowed_spec
from tests.support import (
    flip_byte,
    make_families,
    make_store,
    numbered,
    open_store,
    raises,
    raw_spec,
    spec_file,
    tree_state,
)


def flip(file: Path) -> Path:
    """One bit of its first block, as a disk does: without another size or time."""
    flip_byte(file, file.stat().st_size // 8, 0x10, quietly=True)
    return file


def tables(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.sst"), key=lambda file: -file.stat().st_size)


@pytest.mark.parametrize("mode", ["full", "digest"])
def test_a_bit_that_flips_after_the_verification_keeps_the_store_from_going_live(mode: str, app: Application) -> None:
    verify(app.spec, mode=mode)  # type: ignore[arg-type]
    for file in tables(app.spec.home / "new"):
        before = tree_state(app.path)
        content = file.read_bytes()
        flip(file)
        refused = raises(RefusedError, f"{file} is not as it was verified", cutover, app.spec)
        assert refused.exit_code == ExitCode.REFUSED
        assert tree_state(app.path) == before
        file.write_bytes(content)
    assert cutover(app.spec).state == "cut over"


def test_a_run_makes_again_what_was_damaged(app: Application) -> None:
    flip(tables(app.spec.home / "new")[0])
    raises(RefusedError, "not as it was verified", cutover, app.spec)
    assert run(app.spec).state == "verified"
    assert cutover(app.spec).state == "cut over"
    assert finalize(app.spec).state == "finalized"


def test_a_table_that_is_gone_is_named(app: Application) -> None:
    tables(app.spec.home / "new")[0].unlink()
    raises(RefusedError, r"\.sst", cutover, app.spec)
    assert app.standing() == {"old"}


def test_files_are_not_read_again_where_seconds_count(lone: Spec, tmp_path: Path) -> None:
    """Nor right after a verification: `run --cutover` has made one."""
    flip(tables(lone.home / "new")[0])
    raises(RefusedError, "not as it was verified", cutover, lone)
    assert cutover(lone, checksums=False).state == "cut over"
    make_store(tmp_path / "old", numbered(100))
    file = spec_file(tmp_path / "migration.toml", name="m", target={"path": None})
    assert CliRunner().invoke(main, ["run", str(file), "--no-spark"]).exit_code == 0
    flip(tables(tmp_path / "work/m/new")[0])
    found = CliRunner().invoke(main, ["cutover", str(file)])
    assert (found.exit_code, "not as it was verified" in found.stderr) == (ExitCode.REFUSED, True)
    assert CliRunner().invoke(main, ["cutover", str(file), "--no-checksums"]).exit_code == 0


def test_nothing_is_given_up_for_a_store_that_was_damaged_in_use(app: Application) -> None:
    cutover(app.spec)
    file = flip(tables(app.live(FIRST))[0])
    raises(RefusedError, f"{file} is not as it was verified", finalize, app.spec)
    assert rollback(app.spec).state == "rolled back"
    assert app.standing() == {"old"}


def _written_by_owner(store: Path, family: str) -> Path:
    """The table with what the new application has written."""
    before = {*store.rglob("*.sst")}
    with open_store(store) as database:
        column = database.get_column_family(family)
        for key, value in (LATE | numbered(100)).items():
            column[key] = b"\0" * 8 + value
        column.flush(True)
        del column
    (made,) = {*store.rglob("*.sst")} - before
    return made


def test_what_the_owner_has_written_since_is_read(app: Application) -> None:
    cutover(app.spec)
    made = _written_by_owner(app.live(FIRST), DATA)
    content = made.read_bytes()
    flip(made)
    raises(RefusedError, r"cannot be read.*nothing was removed", finalize, app.spec)
    made.write_bytes(content)
    assert finalize(app.spec).state == "finalized"


def test_what_the_owner_has_compacted_is_no_damage(app: Application) -> None:
    cutover(app.spec)
    store = app.live(FIRST)
    ours = {*store.rglob("*.sst")}
    _written_by_owner(store, DATA)
    with open_store(store) as database:
        column = database.get_column_family(DATA)
        column.compact_range(None, None)
        del column
    assert not ours <= {*store.rglob("*.sst")}
    assert finalize(app.spec).state == "finalized"


def test_a_published_directory_is_looked_at_before_its_end(tmp_path: Path) -> None:
    make_store(tmp_path / "old", numbered(500))
    spec = raw_spec(tmp_path, tmp_path / "old")
    run(spec)
    (file,) = tables(tmp_path / "new")
    content = file.read_bytes()
    flip(file)
    raises(RefusedError, f"{file} is not as it was verified", finalize, spec)
    file.write_bytes(content)
    assert finalize(spec).state == "finalized"


@pytest.mark.parametrize("end", [cutover, finalize])
def test_every_segment_is_looked_at(end: Callable[[Spec], object], tmp_path: Path) -> None:
    for number in range(3):
        start = number * 15 * MINUTE
        records = {window_key(b"k%03d" % key, start + key): b"value" for key in range(100)}
        make_families(tmp_path / f"app/0_0/win/win.{start}", {PLAIN: records})
    spec = windowed_spec(tmp_path, "kafka-streams.window", "kafka-streams.timestamped-window")
    run(spec)
    if end is finalize:
        cutover(spec)
    found = tables(tmp_path / "app/0_0/win" if end is finalize else spec.home / "new")
    assert len(found) == 3
    for file in found:
        content = file.read_bytes()
        flip(file)
        raises(RefusedError, f"{file} is not as it was verified", end, spec)
        file.write_bytes(content)
    end(spec)
