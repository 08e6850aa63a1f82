"""Power cuts between any two calls of an export: a reader sees one whole version, and the same command finishes."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from migrate import export, load_spec
from tests.durability.disk import KILL, POWER_CUTS, Cut, Disk
from tests.durability.trace import Call, Op, record, require_strace
from tests.rows.exported import rows
from tests.support import make_store, numbered, spec_file

BEFORE = numbered(700, value_size=60)
NOW = {**BEFORE, b"new": b"later"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Disk, list[Call]]:
    """The second export of a store that has changed: the directory, the disk before it, and its calls."""
    require_strace()
    base = tmp_path_factory.mktemp("export").resolve() / "base"
    base.mkdir()
    make_store(base / "old", BEFORE)
    file = spec_file(base / "migration.toml", run={"chunk_size": "16 KiB"})
    export(load_spec(file), base / "table")
    make_store(base / "old", {b"new": b"later"})
    disk = Disk(base)
    program = ["-m", "migrate", "export", str(file), "--to", str(base / "table")]
    log = base.with_name("trace")
    calls = record(program, log=log, events=base.with_name("events"))
    return base, disk, [call for call in calls if disk.concerns(call)]


def records(table: Path, version: int | None = None) -> dict[bytes, bytes]:
    found = rows(table, version)
    assert len({row["key"] for row in found}) == len(found)
    return {row["key"]: row["value"] for row in found}


@pytest.mark.parametrize("cut", [KILL, *POWER_CUTS], ids=lambda cut: cut.name)
def test_a_power_cut_anywhere_leaves_one_whole_version(cut: Cut, recorded: tuple[Path, Disk, list[Call]]) -> None:
    base, begin, calls = recorded
    table = base / "table"
    begin.write_to(base, KILL)
    first, disk, seen = DeltaTable(str(table)).version(), Disk(base), set()
    for call in calls:
        disk.apply(call)
        if call.op is Op.WRITE or (outcome := disk.fingerprint(cut)) in seen:
            continue
        seen.add(outcome)
        disk.write_to(base, cut)
        assert records(table) in (BEFORE, NOW)
        assert records(table, first) == BEFORE
        export(load_spec(base / "migration.toml"), table)
        assert records(table) == NOW
        assert records(table, first) == BEFORE
    assert len(seen) > 5
