"""The migration of an application's store and changelog, by the commands that a person gives."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tests.live.changelog.app import App, Program
from tests.live.changelog.model import (
    EXAMPLE,
    RETENTION_MS,
    Input,
    Rows,
    first_difference,
    make_input_topic,
    migrated,
    random_inputs,
    rows_after,
    send,
)
from tests.shared.commands import Outcome, command_server

_VALUE = """
[conversion.value]
from = {serde = "avro", frame = "confluent", schemas = {1 = "orders-v1.avsc"}}
to = {serde = "avro", frame = "confluent", id = 2, schema = "orders-v2.avsc"}
"""
_NO_CHANGELOG = """
[conversion]
allow = ["changelog"]
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """From the old version of an application to the new one.

    The values change if the schemas differ; then records are appended to the changelog if the stores' names are equal.
    """

    old: Program
    new: Program
    source: str = "live"
    timestamps: str = "default"

    @property
    def folder(self) -> Path:
        return self.old.state_dir.parent

    @property
    def spec(self) -> Path:
        return self.folder / "migration.toml"

    def write(self) -> Migration:
        """Write the spec, and the schemas beside it."""
        for schema in EXAMPLE.glob("*.avsc"):
            shutil.copy(schema, self.folder)
        self.spec.write_text(self._text(), encoding="utf-8")
        return self

    def perform(self, verb: str, *options: str) -> str:
        """Run a command, which must succeed; returns what it prints."""
        done = self._done(verb, *options)
        assert done.code == 0, f"{verb}: {done.out}{done.err}"
        return done.out

    def refuse(self, verb: str) -> str:
        """Run a command, which must be refused; returns why."""
        done = self._done(verb)
        assert done.code == 6, f"{verb}: {done.out}{done.err}"
        return done.err

    def _done(self, verb: str, *options: str) -> Outcome:
        on_no_spark = ["--no-spark"] if verb in ("run", "verify") else []
        return command_server().run([verb, str(self.spec), *on_no_spark, *options])

    def _text(self) -> str:
        has_new_values = self.old.schema_id != self.new.schema_id
        is_renamed = self.old.store != self.new.store
        retention = f"retention_ms = {self.old.retention_ms}\n" if "window" in self.old.kind else ""
        changelog = f"""
[changelog]
bootstrap = "{self.old.bootstrap}"
timestamps = "{self.timestamps}"
{'way = "append"' if has_new_values and not is_renamed else ""}
"""
        return f"""
name = "orders-v2"
work_dir = "work"
[source]
format = "kafka-streams.{self.old.kind}"
path = "{self.old.folder}"
store = "{self.old.store}"
{retention}
[target]
format = "kafka-streams.{self.new.kind}"
{f'store = "{self.new.store}"' if is_renamed else ""}
{retention}
{changelog if self.old.logged else _NO_CHANGELOG}
[run]
source = "{self.source}"
chunk_size = "64 KiB"
{_VALUE if has_new_values else ""}
"""


def assert_holds(app: App, expected: Rows) -> None:
    """All that there is to process has been processed, and this is what came of it."""
    difference = first_difference(app.wait_caught_up().dump(), expected)
    assert difference is None, difference


def assert_finds(program: Program, expected: Rows, *, restored: int | None) -> None:
    """It starts, restores so many records (None: any number, but some), and holds this."""
    with App(program) as app:
        assert_holds(app, expected)
        assert app.restored == restored if restored is not None else app.restored > 0, f"restored {app.restored}"
        app.stop()


def assert_finds_and_restores(program: Program, expected: Rows) -> None:
    """It holds this where it finds its state, without a restoration, and where it has none."""
    assert_finds(program, expected, restored=0)
    assert_finds(program.elsewhere(), expected, restored=None)


def some_inputs(keys: int, more: int, seed: int = 1) -> list[Input]:
    """Inputs up to now, in several segments of a windowed store."""
    return random_inputs(keys, more, seed=seed, now_ms=time.time_ns() // 1_000_000, spread_ms=RETENTION_MS * 2 // 3)


def make_state(old: Program, inputs: list[Input]) -> Program:
    """The old version has processed these inputs, and has been stopped."""
    make_input_topic(old.bootstrap, old.input)
    send(old.bootstrap, old.input, inputs)
    assert_finds(old, rows_after(old.kind, inputs), restored=0)
    return old


def there_and_back(old: Program, keys: int) -> None:
    """Migrate to a new topic, go on with the new version, lose its state, and roll back.

    The old version then processes again what the new one has processed.
    """
    inputs, more = some_inputs(keys, keys // 5), some_inputs(keys // 20, 50, seed=2)
    new = make_state(old, inputs).next_version()
    migration = Migration(old, new).write()

    migration.perform("run")
    migration.perform("cutover")
    after = migrated(rows_after(old.kind, inputs))
    with App(new) as app:
        assert_holds(app, after)
        send(new.bootstrap, new.input, more)
        after = rows_after(old.kind, more, schema_id=2, before=after)
        assert_holds(app, after)
        assert app.restored == 0
        app.stop()
    assert_finds(new.elsewhere(), after, restored=None)

    migration.perform("rollback")
    assert_finds_and_restores(old, rows_after(old.kind, [*inputs, *more]))
