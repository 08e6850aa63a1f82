"""A migration that was begun, and is not the one that the command would go on with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate.errors import ExitCode
from migrate.ledger import LEDGER_SCHEMA, Ledger, Step, read_ledger
from tests.bad_input.support import Migration, at_event, check_clear, raw_records
from tests.support import KEY_VALUE, open_store, tree_state

FAILS_HALFWAY = "def convert(record):\n    return 1 / 0 if record.key == b'key-00002500' else record\n"


@pytest.fixture
def stopped(raw: Migration) -> Migration:
    """It has finished about half of its chunks, and no more time."""
    raw.set("run", time_budget="0s")
    raw.fails(ExitCode.INTERRUPTED, "the time budget is used up", "run the same command again to resume")
    raw.set("run", time_budget="1h")
    return raw


def test_a_stopped_run_goes_on(stopped: Migration) -> None:
    stopped.completes({".": raw_records()})


def test_one_record_more_in_the_source_is_refused(stopped: Migration) -> None:
    with open_store(stopped.source) as database:
        database[b"key-99999999"] = b"new"

    stopped.refused("not the migration that was begun", "changed since: store state", "stateferry abandon SPEC")
    stopped.refused("changed since: store state")


ONE_MORE = """
from rocksdict import Options, Rdict
database = Rdict({path!r}, Options(raw_mode=True))
database[b"key-99999999"] = b"new"
database.close()
"""


def test_one_record_more_while_the_migration_runs_is_refused_before_it_is_published(raw: Migration) -> None:
    """The application was started too early: the new store would lack what it has written."""
    outcome = raw.run(before=at_event("verify.committed", ONE_MORE.format(path=str(raw.source))))

    check_clear(outcome, ExitCode.REFUSED, "changed since: store state")
    assert not raw.target.exists()
    raw.refused("changed since: store state")


def test_one_value_more_in_the_log_of_the_source_is_refused(stopped: Migration) -> None:
    """Not even a new file: a record that lies in the write-ahead log."""
    with open_store(stopped.source) as database:
        database[b"key-00000007"] = b"changed"
        database.flush_wal(True)

    stopped.refused("changed since: store state")


@pytest.mark.parametrize(
    ("section", "keys", "said"),
    [
        ("conversion", {"default_timestamp_ms": 7}, "[conversion]"),
        ("target", {"path": "elsewhere"}, "[target]"),
        ("target", {"format": KEY_VALUE}, "[target]"),
    ],
)
def test_another_spec_of_the_same_name_is_refused(
    stopped: Migration, section: str, keys: dict[str, object], said: str
) -> None:
    stopped.set("conversion", allow=["changelog", "unclean-source"])
    before = stopped.spec.get(section, {})
    stopped.set(section, **keys)

    stopped.refused(f"changed since: {said}", "restore what changed to go on")

    stopped.spec[section] = before
    stopped.completes({".": raw_records()})


@pytest.mark.parametrize(
    "keys",
    [{"chunk_size": 10_000}, {"verify": "digest"}, {"on_reject": "skip"}, {"snapshot": "copy"}],
    ids=lambda keys: str(next(iter(keys))),
)
def test_another_run_section_is_the_same_migration(stopped: Migration, keys: dict[str, object]) -> None:
    stopped.set("run", **keys)

    stopped.completes({".": raw_records()})


def test_another_function_of_the_same_name_is_refused(raw: Migration) -> None:
    raw.module(FAILS_HALFWAY)
    raw.fails(ExitCode.FAILED, 'the key "key-00002500"')

    raw.module("def convert(record):\n    return record\n")
    raw.refused("changed since: function", "restore what changed to go on")

    raw.spec["name"] = "again"
    raw.completes({".": raw_records()})


def test_another_migration_s_folder_is_refused(stopped: Migration) -> None:
    append_ledger_row(stopped, migration_id="another", step=Step.ASSEMBLED)

    stopped.refused("belongs to the migration another", "another name")


def newer_plan(plan: dict[str, object]) -> str:
    return json.dumps({**plan, "schema_version": 2, "colour": "blue"})


def cut_short(plan: dict[str, object]) -> str:
    return json.dumps(plan)[:-100]


def without_chunks(plan: dict[str, object]) -> str:
    return json.dumps({name: part for name, part in plan.items() if name != "chunks"})


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (newer_plan, ("has schema 2, this version knows 1", "use the newer Stateferry that wrote it")),
        (cut_short, ("is damaged", "stateferry abandon SPEC")),
        (without_chunks, ("is damaged", "stateferry abandon SPEC")),
        (lambda _: "", ("is damaged", "stateferry abandon SPEC")),
        (lambda _: "[]", ("is damaged", "stateferry abandon SPEC")),
    ],
    ids=["newer", "cut-short", "without-chunks", "empty", "no-plan"],
)
def test_a_plan_that_cannot_be_read_is_refused(
    stopped: Migration, spoil: Callable[[dict[str, object]], str], said: tuple[str, ...]
) -> None:
    (file,) = stopped.home.glob("plan-*.json")
    content = file.read_text(encoding="utf-8")
    file.write_text(spoil(json.loads(content)), encoding="utf-8")

    for verb in ("run", "status"):
        check_clear(stopped.run(verb=verb), ExitCode.REFUSED, str(file), *said)

    file.write_text(content, encoding="utf-8")
    stopped.completes({".": raw_records()})


def test_a_ledger_of_a_newer_schema_is_refused(stopped: Migration) -> None:
    append_ledger_row(stopped, schema_version=LEDGER_SCHEMA + 1)

    for verb in ("run", "status"):
        said = (str(stopped.home / "ledger"), f"has schema {LEDGER_SCHEMA + 1}", "newer Stateferry")
        check_clear(stopped.run(verb=verb), ExitCode.REFUSED, *said)
    assert not stopped.target.exists()


def a_log_entry(ledger: Path) -> Path:
    return min(ledger.glob("_delta_log/*.json"))


def a_data_file(ledger: Path) -> Path:
    return min(ledger.glob("*.parquet"))


@pytest.mark.parametrize("content", [b"{nonsense", b"", None], ids=["nonsense", "empty", "missing"])
@pytest.mark.parametrize("find", [a_log_entry, a_data_file])
def test_a_damaged_ledger_is_repaired_by_a_run_alone(
    stopped: Migration, find: Callable[[Path], Path], content: bytes | None
) -> None:
    file = find(stopped.home / "ledger")
    file.unlink() if content is None else file.write_bytes(content)

    before = tree_state(stopped.home)
    assert stopped.run(verb="status").code == ExitCode.DONE  # by the other copy of each row
    assert tree_state(stopped.home) == before

    report = stopped.completes({".": raw_records()})
    assert any("the ledger was damaged, and is repaired" in warning for warning in report["warnings"])


def test_a_ledger_that_lost_both_copies_of_a_row_is_repaired_by_a_run_alone(stopped: Migration) -> None:
    newest = max(stopped.home.glob("ledger/_delta_log/*.json"))
    for file in (newest, *stopped.home.glob("ledger/*.parquet")):
        file.write_bytes(b"")

    said = (str(stopped.home / "ledger"), "is damaged", "stateferry run SPEC repairs")
    check_clear(stopped.run(verb="status"), ExitCode.REFUSED, *said)
    assert not stopped.target.exists()

    stopped.completes({".": raw_records()})


def append_ledger_row(migration: Migration, **columns: object) -> None:
    """As another version of this tool, or another migration, would."""
    newest = read_ledger(migration.home)[-1]
    ledger = Ledger(migration.home, newest.migration_id, "other")
    ledger.commit(newest.model_copy(update=columns))


def test_status_of_what_has_not_begun_is_no_error(raw: Migration) -> None:
    outcome = raw.run(verb="status")

    assert outcome.code == ExitCode.DONE
    assert "not started" in outcome.out


def test_verifying_a_published_directory_that_was_moved_away_is_refused(raw: Migration) -> None:
    raw.completes({".": raw_records()})
    raw.target.rename(raw.folder / "elsewhere")

    outcome = raw.run("--no-spark", "--quiet", verb="verify")

    check_clear(outcome, ExitCode.REFUSED, f"the published directory {raw.target} is not there", "move it back")


def test_verifying_what_is_not_rewritten_is_refused(stopped: Migration) -> None:
    check_clear(
        stopped.run("--no-spark", "--quiet", verb="verify"), ExitCode.REFUSED, "not rewritten yet", "stateferry run"
    )
