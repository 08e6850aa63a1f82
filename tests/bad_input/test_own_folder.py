"""The migration's own folder: what is not ours is neither taken for it nor removed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate.cli.main import main
from migrate.errors import ExitCode
from tests.bad_input.support import Migration, at_event, expected_orders
from tests.support import make_store, numbered, read_families

OPTIONS = {"verify": ("--no-spark",), "doctor": ("--no-spark",)}
VERBS = ["plan", "doctor", "run", "status", "report", "verify", "cutover", "rollback", "finalize", "abandon"]
SWITCH = ("cutover", "rollback", "snapshot")
MARKER = "stateferry-folder.json"


def _git(home: Path) -> None:
    (home / ".git").mkdir(parents=True)
    (home / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def _another_store(home: Path) -> None:
    make_store(home / "0_0" / "rocksdb" / "orders", numbered(10))


def _names_like_ours(home: Path) -> None:
    for name in ("ledger", "new", "chunks", "snapshot"):
        (home / name).mkdir(parents=True)
        (home / name / "notes.txt").write_text("of somebody else")
    (home / "plan-0001.json").write_text("{}")
    (home / "run.lock").write_text("4711")


FOREIGN = {"git": _git, "store": _another_store, "names": _names_like_ours}


def _link(home: Path) -> None:
    elsewhere = home.parent.with_name("elsewhere")
    _another_store(elsewhere)
    home.parent.mkdir(exist_ok=True)
    home.symlink_to(elsewhere)


def _dangling_link(home: Path) -> None:
    home.parent.mkdir(exist_ok=True)
    home.symlink_to(home.with_name("nowhere"))


def _file(home: Path) -> None:
    home.parent.mkdir(exist_ok=True)
    home.write_text("of somebody else")


def refused(migration: Migration, verb: str, *said: str) -> None:
    """Exit 6, these words, and nothing is changed."""
    target = migration.spec["target"]
    migration.spec["target"] = {**target, "path": "new"} if verb not in SWITCH else {"format": target["format"]}
    before = _tree(migration)
    outcome = migration.run(*OPTIONS.get(verb, ()), verb=verb)
    text = " ".join((outcome.out + outcome.err).split())
    print(text)
    assert "Traceback" not in text
    assert outcome.code == ExitCode.REFUSED
    for words in said:
        assert words in text
    assert _tree(migration) == before


def _tree(migration: Migration) -> dict[str, object]:
    state = {str(path.relative_to(migration.folder)): path.lstat().st_mtime_ns for path in migration.folder.rglob("*")}
    return {name: found for name, found in state.items() if not name.startswith(("migration.toml", "__pycache__"))}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_folder_of_somebody_else_is_refused_by_every_verb(app: Migration, make: Callable[[Path], None]) -> None:
    assert set(VERBS) <= set(main.commands)
    make(app.home)
    for verb in VERBS:
        refused(app, verb, f"{app.home} is not Stateferry's", "choose another work_dir, or another `name`")


@pytest.mark.parametrize(
    ("make", "said"), [(_link, "is a symbolic link"), (_dangling_link, "is a symbolic link"), (_file, "is a file")]
)
def test_what_is_no_folder_at_all_is_refused_by_every_verb(
    app: Migration, make: Callable[[Path], None], said: str
) -> None:
    make(app.home)
    for verb in VERBS:
        refused(app, verb, f"{app.home} {said}")


def test_a_link_to_another_migration_is_refused(app: Migration) -> None:
    app.completes(expected_orders())
    app.home.rename(app.home.with_name("other"))
    app.home.symlink_to("other")
    for verb in VERBS:
        refused(app, verb, "is a symbolic link")


def test_a_snapshot_is_refused_too(app: Migration) -> None:
    app.set("run", source="snapshot")
    del app.spec["target"]["path"]
    _git(app.home)
    refused(app, "snapshot", "is not Stateferry's", "'.git'")


@pytest.mark.parametrize("verb", ["plan", "doctor"])
def test_it_is_the_first_check(app: Migration, verb: str) -> None:
    _git(app.home)
    report = json.loads(app.run("--json", *OPTIONS.get(verb, ()), verb=verb).out)
    assert (report["checks"][0]["name"], report["checks"][0]["outcome"]) == ("work_dir.ours", "failed")


def test_a_work_dir_may_be_a_link_and_an_empty_folder_is_taken(app: Migration) -> None:
    (app.folder / "disk" / "test").mkdir(parents=True)
    (app.folder / "work").symlink_to("disk")
    app.completes(expected_orders())
    assert (app.folder / "disk" / "test" / MARKER).is_file()


@pytest.mark.parametrize("made", ["empty", "lock", "half a marker"])
def test_what_a_kill_leaves_of_a_folder_that_was_being_made_is_taken(app: Migration, made: str) -> None:
    app.home.mkdir(parents=True)
    if made != "empty":
        (app.home / "run.lock").touch()
    if made == "half a marker":
        (app.home / MARKER).write_bytes(b'{"schema')
        (app.home / f".{MARKER}.17.tmp").touch()
    app.completes(expected_orders())


def test_a_refused_run_leaves_an_empty_folder_as_it_was(app: Migration) -> None:
    app.home.mkdir(parents=True)
    app.set("source", store="nothing")
    app.refused("no key-value store 'nothing'")
    assert list(app.home.iterdir()) == []


def _killed(migration: Migration, *, at: str = "assemble.ingested") -> None:
    """By default between two new stores."""
    outcome = migration.run(before=at_event(at, "import os; os._exit(99)"))
    assert outcome.code == 99, outcome.err


def _theirs(home: Path, names: list[str]) -> list[Path]:
    files = [home / name for name in names]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("of somebody else")
    return files


def test_what_is_not_ours_in_our_folder_stays_and_is_named(app: Migration) -> None:
    _killed(app)
    make_store(app.home / "new" / "backup", numbered(3))
    names = [".git/HEAD", ".envrc", "notes.txt", "chunks/0_0/a", "new/a", "old2/a", "snapshot/a", "ledger/a"]
    theirs = _theirs(app.home, names)
    (app.home / "snapshot" / "link").symlink_to(app.source)
    outcome = app.run("--json", verb="abandon")
    assert outcome.code == ExitCode.DONE, outcome.err
    assert {file.read_text() for file in theirs} == {"of somebody else"}
    assert read_families(app.home / "new" / "backup")["default"] == numbered(3)
    left = {Path(path).relative_to(app.home).as_posix() for path in json.loads(outcome.out)["left_over"]}
    assert left >= {".git", *names[1:5], "old2", *names[6:], "snapshot/link", "new/backup/CURRENT"}
    files = {path for path in app.home.rglob("*") if path.is_file() and "backup" not in path.parts}
    assert files == {*theirs}
    refused(app, "run", "is not Stateferry's")


def test_a_run_removes_nothing_of_somebody_else(app: Migration) -> None:
    _killed(app)
    names = [".git/HEAD", ".envrc", "snapshot-old.tmp/a", "dead-letters/a", "new/mine/a", "chunks/a.txt", "..a.tmp/a"]
    theirs = _theirs(app.home, names)
    temporary = f".{app.target.name}.stateferry-"
    beside = _theirs(app.target.parent, [f"{temporary}backup/a", f"{temporary}0123456789ab/a"])
    _killed(app)
    assert {file.read_text() for file in (*theirs, *beside)} == {"of somebody else"}
    outcome = app.run("--json", verb="abandon")
    assert outcome.code == ExitCode.DONE, outcome.err
    assert {file.read_text() for file in (*theirs, *beside)} == {"of somebody else"}
    assert {str(file.parent) for file in beside} <= {*json.loads(outcome.out)["left_over"]}
