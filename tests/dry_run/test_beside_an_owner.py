"""Dry runs beside an application that writes, flushes, compacts and checkpoints, and beside a running migration."""

import subprocess
import sys
import threading
from pathlib import Path

import migrate
from migrate.model.events import Event
from tests.batch.switch.support import make_application
from tests.dry_run.support import Planned, checks, everything, failed, planned, temporary_leftovers
from tests.support import kafka_spec, make_store, numbered, raw_spec, read_family

RESTLESS = """
import random, sys
from rocksdict import Options, Rdict
options = Options(raw_mode=True)
options.set_write_buffer_size(64 << 10)
options.set_target_file_size_base(32 << 10)
options.set_level_zero_file_num_compaction_trigger(2)
database = Rdict(sys.argv[1], options)
rng = random.Random(3)
print("ready", flush=True)
import threading
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
kept = {}
while not over.is_set():
    for _ in range(500):
        key = b"key-%08d" % rng.randrange(3000)
        database[key] = kept[key] = rng.randbytes(40)
    database.flush_wal(True)
    if rng.random() < 0.1:
        database.flush(True)
        database.compact_range(None, None)
database.close()
import json
json.dump({key.hex(): value.hex() for key, value in kept.items()}, open(sys.argv[2], "w"))
"""
ROUNDS = 25


def test_an_owner_that_writes_and_compacts_all_the_time_is_neither_disturbed_nor_a_reason_to_refuse(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path / "state", numbered(3000))
    kept = tmp_path / "kept.json"
    spec = raw_spec(tmp_path, store)
    left = temporary_leftovers()
    with subprocess.Popen(
        [sys.executable, "-c", RESTLESS, store, kept], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        for number in range(ROUNDS):
            report = planned(spec, sample=200, full=number % 2 == 0)
            assert failed(report) == {}
            assert (report.verdict.exit_code, report.is_estimate) == (0, True)
            assert list(checks(report, "waiting")) == ["source.stopped"]
            check_numbers(report)
            foreign = {path.name for path in store.iterdir() if path.suffix not in (".sst", ".log")}
            assert all(
                name.startswith(("CURRENT", "IDENTITY", "LOCK", "LOG", "MANIFEST", "OPTIONS", "rocksdict"))
                for name in foreign
            )
            assert {path.name for path in tmp_path.iterdir()} <= {"state", "kept.json"}
        owner.stdin.close()  # type: ignore[union-attr]
        assert owner.wait(timeout=60) == 0
    assert temporary_leftovers() <= left
    import json

    written = {bytes.fromhex(key): bytes.fromhex(value) for key, value in json.loads(kept.read_text()).items()}
    assert read_family(store) == dict(sorted({**numbered(3000), **written}.items()))


def check_numbers(report: Planned) -> None:
    assert report.found.at_least <= 3000 <= report.found.at_most
    if report.tried.is_full:
        assert (report.found.records, report.tried.records, report.tried.unchanged) == (3000, 3000, 3000)


def test_a_running_migration_is_not_disturbed_and_is_reported(tmp_path: Path) -> None:
    """A dry run at every event of a run, from another thread of the same process and in between two steps."""
    spec = kafka_spec(tmp_path, make_application(tmp_path), run={"chunk_size": "100 KiB"})
    told: list[tuple[str, int, str]] = []

    def look(event: Event) -> None:
        before = everything(tmp_path)
        report = planned(spec, sample=20)
        assert everything(tmp_path) == before
        told.append((event.name, report.verdict.exit_code, report.state))

    done = migrate.run(spec, on_event=look)
    assert done.verification.ok
    assert {code for name, code, _ in told if name not in ("publish.renamed", "publish.committed")} == {6}
    assert "damaged" not in {state for _, _, state in told}
    assert planned(spec).verdict.exit_code == 0


def test_a_run_with_dry_runs_beside_it_all_the_time_ends_as_ever(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", numbered(20_000)), run={"chunk_size": 30_000})
    over = threading.Event()
    states: set[str] = set()
    errors: list[BaseException] = []

    def look() -> None:
        try:
            while not over.is_set():
                states.add(planned(spec, sample=50).state)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        done = migrate.run(spec)
    finally:
        over.set()
        for looker in lookers:
            looker.join()
    assert errors == []
    assert "damaged" not in states
    assert done.totals.records_out == 20_000
    assert read_family(tmp_path / "new") == numbered(20_000)
