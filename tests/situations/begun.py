"""Migrations that were started earlier, were stopped at a step, or whose folder was changed."""

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

import migrate
from migrate.batch.ledger.table import Ledger
from migrate.batch.run_lock import one_run_at_a_time
from migrate.model.ledger_row import LEDGER_SCHEMA, Step
from tests.bad_input.support import Migration
from tests.batch.switch.support import StopAt, StoppedError
from tests.situations.situation import DONE, REFUSED, Do, app, begun, completes, nothing, raw, stop
from tests.support import KEY_VALUE, RAW, open_store, read_ledger

IN_PLACE = {"path": None}
SAME = "def convert(record):\n    return record\n"
ALLOWED = {"allow": ["changelog", "unclean-source"]}


def one_more(migration: Migration) -> None:
    with open_store(migration.source) as database:
        database[b"key-99999999"] = b"new"


def one_more_in_the_log(migration: Migration) -> None:
    """Change a record in the write-ahead log only: no new file appears."""
    with open_store(migration.source) as database:
        database[b"key-00000007"] = b"changed"
        database.flush_wal(True)


def another_function(migration: Migration) -> None:
    migration.module("def convert(record):\n    return record if record else None\n")
    stop(migration, "chunk.committed")
    migration.module(SAME)


def only(section: str, key: str, value: object) -> dict[str, Any]:
    """A change of one key of the spec."""
    return {section: {key: value}}


def ran(*verbs: Callable[..., object], then: Do = nothing) -> Do:
    """Run these verbs to their end first."""

    def do(migration: Migration) -> None:
        for verb in (migrate.run, *verbs):
            verb(migration.load())
        then(migration)

    return do


def half_cut_over(migration: Migration, at: str = "cutover.exchanged") -> None:
    with pytest.raises(StoppedError):
        migrate.cutover(migration.load(), on_event=StopAt(at))


def stands(state: str) -> Do:
    """Check what the dry run calls it."""

    def check(migration: Migration) -> None:
        assert migrate.plan(migration.load()).state == state

    return check


def half_abandoned(migration: Migration) -> None:
    with pytest.raises(StoppedError):
        migrate.abandon(migration.load(), on_event=StopAt("abandon.renamed"))


def torn_ledger(migration: Migration) -> None:
    """The ledger as a power cut leaves it: a run repairs it."""
    max((migration.home / "ledger/_delta_log").glob("*.json")).write_bytes(b"")


def another_row(**columns: object) -> Do:
    """A ledger row as another version of Stateferry, or another migration, would add it."""

    def append(migration: Migration) -> None:
        newest = read_ledger(migration.home)[-1]
        Ledger(migration.home, newest.migration_id, "other").commit(newest.model_copy(update=columns))

    return append


def plan_file(change: Callable[[dict[str, object]], str]) -> Do:
    def spoil(migration: Migration) -> None:
        (file,) = migration.home.glob("plan-*.json")
        shutil.copy2(file, migration.folder / "kept")
        file.write_text(change(json.loads(file.read_bytes())), encoding="utf-8")

    return spoil


def plan_restored(migration: Migration) -> None:
    shutil.copy2(migration.folder / "kept", next(migration.home.glob("plan-*.json")))


def without_chunks(plan: dict[str, object]) -> str:
    return json.dumps({name: part for name, part in plan.items() if name != "chunks"})


CHANGED = "changed since: "
UNREADABLE = ("is damaged", "stateferry abandon SPEC")
PLANS: dict[str, tuple[Callable[[dict[str, object]], str], tuple[str, ...]]] = {
    "newer": (
        lambda plan: json.dumps({**plan, "schema_version": 2, "colour": "blue"}),
        ("has schema 2, this version knows 1", "use the newer Stateferry that wrote it"),
    ),
    "cut short": (lambda plan: json.dumps(plan)[:-100], UNREADABLE),
    "without chunks": (without_chunks, UNREADABLE),
    "empty": (lambda _: "", UNREADABLE),
    "another document": (lambda _: "[]", UNREADABLE),
}
STATES: dict[str, list[Callable[..., object]]] = {
    "cut over": [migrate.cutover],
    "rolled back": [migrate.cutover, migrate.rollback],
    "finalized": [migrate.cutover, migrate.finalize],
}
SITUATIONS = [
    *(app(f"a run that stopped at {event}", target=IN_PLACE, do=begun(at=event))
      for event in ("snapshot.taken", "plan.stored", "chunk.committed", "assemble.committed", "verify.committed")),
    raw("a run has begun", do=begun()),
    *(raw(f"a run has begun, with another {key}", do=begun(run={key: value}))
      for key, value in {"chunk_size": 20_000, "verify": "digest", "on_reject": "skip", "snapshot": "copy"}.items()),
    *(raw(f"a run has begun, and {what}", REFUSED, "not the migration that was started", f"{CHANGED}store state",
          "stateferry abandon SPEC", do=begun(do))
      for what, do in (("one record more", one_more), ("one value more in the log", one_more_in_the_log))),
    *(raw(f"a run has begun, with another {section} {key}", REFUSED, f"{CHANGED}[{section}]",
          "restore what changed to go on", do=begun(**only(section, key, value)), conversion=ALLOWED,
          then=completes(**only(section, key, before)))
      for section, key, value, before in (("conversion", "default_timestamp_ms", 7, None),
                                          ("target", "path", "elsewhere", "new"),
                                          ("target", "format", KEY_VALUE, RAW))),
    raw("a run has begun, without the function", REFUSED, f"{CHANGED}", "function",
        do=begun(lambda migration: migration.module(SAME))),
    raw("a run has begun, with another function", REFUSED, f"{CHANGED}function", "restore what changed to go on",
        do=another_function, then=completes(name="again")),
    raw("another run", REFUSED, do=begun(), around=lambda migration: one_run_at_a_time(migration.home)),
    *(raw(f"the target appeared at {event}", REFUSED, "exists already",
          do=begun(lambda migration: migration.target.mkdir(), at=event), plan=DONE)
      for event in ("publish.started", "publish.intended")),
    raw("a run that was killed once it had published", do=begun(at="publish.renamed", run={"chunk_size": 4096})),
    app("verified", target=IN_PLACE, do=ran()),
    raw("published", do=ran()),
    raw("published and gone", REFUSED, "does not exist any more", do=ran(then=lambda m: shutil.rmtree(m.target))),
    app("a half-done cut-over", REFUSED, target=IN_PLACE, do=ran(then=half_cut_over)),
    *(app(state, target=IN_PLACE, do=ran(*verbs, then=stands(state)))
      for state, verbs in STATES.items()),
    app("a cut-over that has only written its journal", REFUSED, target=IN_PLACE,
        do=ran(then=lambda migration: half_cut_over(migration, "cutover.intended"))),
    app("a snapshot was taken", target=IN_PLACE, run={"source": "snapshot"},
        do=lambda migration: migrate.snapshot(migration.load())),
    raw("a torn ledger", do=begun(torn_ledger)),
    raw("a ledger of a newer schema", REFUSED, "{home}/ledger", f"has schema {LEDGER_SCHEMA + 1}", "newer Stateferry",
        do=begun(another_row(schema_version=LEDGER_SCHEMA + 1))),
    raw("the ledger of another migration", REFUSED, "belongs to the migration another", "another `name`",
        do=begun(another_row(migration_id="another", step=Step.ASSEMBLED))),
    *(raw(f"a plan that cannot be read, {what}", REFUSED, "{home}/plan-0001.json", *said, do=begun(plan_file(change)),
          then=completes(plan_restored)) for what, (change, said) in PLANS.items()),
    raw("an abandon was killed", do=begun(half_abandoned)),
    raw("a folder that has lost its marker", REFUSED, "{home} is not Stateferry's",
        "make an empty file stateferry-folder.json", do=begun(lambda m: (m.home / "stateferry-folder.json").unlink()),
        then=completes(lambda m: (m.home / "stateferry-folder.json").touch())),
]  # fmt: skip
