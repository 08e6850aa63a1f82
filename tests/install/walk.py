"""Uses every public name and every command where extras may be missing, and prints what became of each, as JSON.

`python walk.py FOLDER [BLOCKED ...]`: FOLDER has a state directory of Kafka Streams, `state/orders-app`. Packages that
are BLOCKED look as if they were not installed. Imports the base install only, and nothing of `tests`.
"""

import io
import json
import runpy
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from types import FunctionType

SOURCE, TARGET = "kafka-streams.key-value", "kafka-streams.timestamped-key-value"
WORKS = "works"
SPEC = f"""
name = "orders"
work_dir = "work"
[source]
format = "{SOURCE}"
path = "state/orders-app"
store = "orders"
[target]
format = "{TARGET}"
path = "new/orders-app"
"""


def use_the_adapter(folder: Path) -> None:
    from migrate import DualReadStore, open_store, write_metrics

    path = folder / "orders"
    shutil.copytree(folder / "state/orders-app/0_0/rocksdb/orders", path)
    with DualReadStore.open(path, source=SOURCE, target=TARGET) as store:
        old = dict(store.range())
        assert len(old) > 100
        store.put(b"new", bytes(8) + b"value")
        while not store.is_converged:
            store.converge(max_records=1000, max_millis=1000)
        write_metrics(folder / "metrics.prom", {"orders": store})
    with open_store(path, format=TARGET) as plain:
        assert dict(plain.range()) == {**old, b"new": bytes(8) + b"value"}


def use_the_serdes() -> None:
    from formats.avro.schema import AvroSchema
    from formats.serdes.avro_serde import AvroSerde
    from formats.serdes.text import StringSerde
    from migrate import MemoryStore, TypedStore

    order = '{"type": "record", "name": "Order", "fields": [{"name": "total", "type": "long"}]}'
    serde = AvroSerde(((7, AvroSchema(order)),), "confluent")
    store: TypedStore[str, dict[str, int]] = TypedStore(MemoryStore(), key=StringSerde(), value=serde)
    store.put("a", {"total": 3})
    assert store.get("a") == {"total": 3}


def calls(folder: Path) -> dict[str, Callable[[], object]]:
    """The functions that the base has, with arguments."""
    import formats
    import migrate

    pair = formats.get_format(SOURCE), formats.get_format(TARGET)
    spec, hosts = folder / "migration.toml", folder / "hosts.toml"
    hosts.write_text('[[host]]\naddress = "10.0.0.1:7654"\nactive = [0]\n')
    return {
        "DualReadStore": lambda: use_the_adapter(folder),
        "TypedStore": use_the_serdes,
        "compile_conversion": lambda: formats.compile_conversion(*pair),
        "conversion_problem": lambda: formats.conversion_problem(*pair),
        "get_format": lambda: formats.get_format(SOURCE),
        "init_spec": lambda: migrate.init_spec(folder / "state/orders-app", store="orders", to=TARGET, output=None),
        "inspect": lambda: migrate.inspect(folder / "state/orders-app", digest=True),
        "known_formats": migrate.known_formats,
        "load_spec": lambda: migrate.load_spec(spec),
        "open_store": lambda: None,  # by DualReadStore
        "read_hosts": lambda: migrate.read_hosts(hosts),
        "rejects": lambda: migrate.rejects(migrate.load_spec(spec)),
        "report": lambda: migrate.report(migrate.load_spec(spec)),
        "stated_hosts": lambda: migrate.stated_hosts(["10.0.0.1:7654=0"]),
        "status": lambda: migrate.status(migrate.load_spec(spec)),
        "with_retries": lambda: migrate.with_retries(lambda: None, on_migrated=lambda: None),
        "write_metrics": lambda: None,  # by DualReadStore
    }


def outcome(name: str, exported: object, known: dict[str, Callable[[], object]]) -> str:
    """`works`, or the message of the error; a function, or its stand-in, that is not known is called as it is."""
    is_class = not isinstance(exported, FunctionType) and getattr(exported, "__module__", "") != "migrate"
    if name not in known and is_class:
        return WORKS
    try:
        known.get(name, exported)()  # type: ignore[operator]
    except Exception as error:  # noqa: BLE001 - whatever a user would see
        return f"{type(error).__name__}: {error}"
    return WORKS


def exports(folder: Path) -> dict[str, str]:
    import formats
    import migrate

    known = calls(folder)
    return {
        f"{package.__name__}.{name}": outcome(name, getattr(package, name), known)
        for package in (formats, migrate)
        for name in package.__all__
    }


def commands(folder: Path) -> dict[str, str]:
    from migrate.cli import main

    state, spec = str(folder / "state/orders-app"), str(folder / "migration.toml")
    arguments = {
        "export": [spec, "--to", str(folder / "exported")],
        "formats": [],
        "get": [spec, "order-000001"],
        "import": [spec, "--from", str(folder / "exported")],
        "init": [state, "--store", "orders", "--to", TARGET, "--output", "-"],
        "inspect": [state],
        "serve": [spec, "--host", "0.0.0.0"],
        "sweep": [str(folder), "--variable", "count", "--marker", "os:getcwd", "--to", "input"],
        "--help": [],
        "--version": [],
    }
    names = ("--version", "--help", *main.commands)
    found = {name: command(partial(main, [name, *arguments.get(name, [spec])])) for name in names}
    for name, answer in (("serve", "no token is set"), ("sweep", "is not the checkpoint of a query")):
        if answer in found[name]:
            found[name] = WORKS
    return {f"stateferry {name}": what for name, what in found.items()} | {"the job": command(partial(job, spec))}


def command(program: Callable[[], object]) -> str:
    """`works`, or the exit code and what was written to standard error."""
    errors, code = io.StringIO(), None
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(errors):
            program()
    except SystemExit as exit_:
        code = exit_.code
    return f"{code}: {errors.getvalue()}" if code else WORKS


def job(spec: str) -> None:
    sys.argv = ["migrate_job.py", "--spec", spec]
    runpy.run_module("jobs.migrate_job", run_name="__main__")


def walk(folder: Path, blocked: Sequence[str]) -> dict[str, str]:
    sys.modules.update(dict.fromkeys(blocked))  # type: ignore[arg-type] # None: there is no such module
    (folder / "migration.toml").write_text(SPEC)
    return exports(folder) | commands(folder)


if __name__ == "__main__":
    print(json.dumps(walk(Path(sys.argv[1]), sys.argv[2:])))
