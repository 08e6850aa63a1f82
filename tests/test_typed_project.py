"""A small project of a user's: mypy --strict sees the types of `migrate` and `formats` as they are installed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = """
from pathlib import Path

import jobs.executor
import migrate
from formats import Serde, get_format
from formats.serde import BYTES
from formats.serdes.json_text import JsonSerde
from migrate import ConversionError, DualReadStore, Event, MigrationError, RunReport, Spec, StateRecord, Stores
from migrate import MemoryStore, TypedStore, cutover, doctor, inspect, load_spec, migrate_store, open_store
from migrate import plan, report, run, status
from migrate import rnu  # error: attr-defined

RAW = "rocksdb.raw"


class TextSerde:
    name = "text"

    def decode(self, data: bytes) -> str:
        return data.decode()

    def encode(self, text: str) -> bytes:
        return text.encode()


class TotalSerde:
    name = "total"

    def decode(self, stored: bytes) -> int:
        return int(stored)

    def encode(self, total: int) -> bytes:
        return str(total).encode()


def convert(record: StateRecord) -> StateRecord | None:
    reveal_type(record.timestamp_ms)  # int | None
    reveal_type(record.window)  # formats.record.Window | None
    return record if record.timestamp_ms else None


def on_event(event: Event) -> None:
    print(event.name, event.facts.get("records"))


def migrate_all(folder: Path) -> RunReport:
    spec = Spec(
        name="orders",
        work_dir=folder / "work",
        source={"format": RAW, "path": "state"},
        target={"format": RAW},
        conversion={"function": convert},
    )
    reveal_type(spec.source.store_names)  # tuple[str, ...]
    reveal_type(load_spec("migration.toml"))  # migrate.spec.spec.Spec
    reveal_type(plan(spec, sample=100).verdict.go)  # bool
    reveal_type(doctor(spec).checks[0].outcome)  # Literal['ok'] | Literal['warning'] | Literal['waiting'] | \
Literal['failed'] | Literal['not run']
    try:
        done = run(spec, on_event=on_event)
    except MigrationError as error:
        reveal_type(error.exit_code)  # migrate.errors.ExitCode
        reveal_type(error.hint)  # str
        raise
    reveal_type(done.totals.records_out)  # int
    reveal_type(cutover(spec).stores)  # tuple[pathlib.Path, ...]
    reveal_type(status(spec).share_done)  # float
    reveal_type(report(spec).chunks[0].host)  # str
    reveal_type(inspect(folder).databases[0].path)  # str
    reveal_type(migrate_store("a", "b", source=RAW, target=RAW, convert=convert))  # migrate.model.reports.RunReport
    return done


def adapter() -> None:
    with DualReadStore.open("store", source=RAW, target=RAW, convert=convert) as store:
        reveal_type(store)  # migrate.dual.dual_store.DualReadStore
        reveal_type(store.get(b"key"))  # bytes | None
        reveal_type(store.progress.old_keys_left)  # int
        for key, value in store.range():
            reveal_type(value)  # bytes
        try:
            store.converge()
        except ConversionError as error:
            reveal_type(error.key)  # bytes
    reveal_type(open_store("store", format=RAW))  # migrate.stores.rocks_store.RocksStore
    with Stores() as stores:
        reveal_type(stores.open("orders", "store", source=RAW, target=RAW))  # migrate.dual.dual_store.DualReadStore
        reveal_type(stores.hand_over("orders", opener=open_store, format=RAW))  # migrate.stores.rocks_store.RocksStore
        reveal_type(stores.resolve("orders").get(b"key"))  # bytes | None
    serde = get_format(RAW).key_serde
    typed: TypedStore[str, int] = TypedStore(store, key=serde, value=serde)
    reveal_type(typed.get("a"))  # int | None
    totals = TypedStore(store, key=TextSerde(), value=TotalSerde())
    reveal_type(totals)  # migrate.dual.typed_store.TypedStore[str, int]
    reveal_type(totals.get("a"))  # int | None
    reveal_type(TypedStore(store, key=BYTES, value=JsonSerde()).get(b"a"))  # Any | None
    reveal_type(migrate.__version__)  # str


def first(serde: Serde, stored: bytes) -> object:
    return serde.decode(stored)


def mistakes() -> None:
    TypedStore(MemoryStore(), key=TextSerde(), value=TotalSerde()).put("a", "b")  # error: arg-type
    run("migration.toml")  # error: arg-type
    DualReadStore.open("store", source=RAW)  # error: call-arg
    Stores().open("orders", "store", source=RAW, target=RAW, synch=True)  # error: call-overload
    Spec(name="orders", work_dir="work", source={"format": RAW, "path": "state"})  # error: call-arg
"""


@pytest.mark.parametrize("how", ["copied", "editable"])
def test_mypy_sees_the_types_in_a_users_project(tmp_path: Path, how: str) -> None:
    project = tmp_path / "project/app.py"
    project.parent.mkdir()
    project.write_text(PROJECT, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if how == "copied":
        environment["PYTHONPATH"] = str(tmp_path / "site-packages")
        (tmp_path / "site-packages").mkdir()
        for package in ("formats", "jobs", "migrate"):
            (tmp_path / "site-packages" / package).symlink_to(ROOT / package)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), project.name]
    done = subprocess.run(
        command, cwd=project.parent, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert _found(done.stdout) == _expected(), done.stdout + done.stderr


def _found(output: str) -> dict[int, str]:
    """What mypy says of each line."""
    revealed = re.findall(r'^app\.py:(\d+): note: Revealed type is "(.*)"$', output, flags=re.MULTILINE)
    errors = re.findall(r"^app\.py:(\d+): (error): .*\[([\w-]+)\]$", output, flags=re.MULTILINE)
    return {int(line): what for line, what in revealed} | {int(line): f"{what}: {code}" for line, what, code in errors}


def _expected() -> dict[int, str]:
    lines = enumerate(PROJECT.splitlines(), start=1)
    return {number: line.partition("  # ")[2] for number, line in lines if "  # " in line}
