"""Pipes, sockets, devices and links in a source directory: nothing but regular files is opened, and each is named."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import STORE, Migration, check_clear, expected_orders
from tests.shared.commands import Outcome
from tests.support import TIMESTAMPED, read_families

TASK = "0_1"
DATABASE = f"{TASK}/rocksdb/{STORE}"
NO_HANGING = "import signal; signal.alarm(60)"
VERBS = ("inspect", "init", "doctor", "plan", "run", "snapshot", "cutover")

every_verb = pytest.mark.parametrize("verb", VERBS)


def make_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as bound:  # its address is short
        bound.bind(path.name)


def make_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.fixture
def bottomless(app: Migration) -> Iterator[Callable[[], None]]:
    """Nests directories deeper than Python's own walks go, and removes them again."""
    folder = app.source / TASK / "deep"

    def nest() -> None:
        folder.mkdir()
        with chdir(folder):
            for _ in range(1200):
                os.mkdir("d")  # noqa: PTH102 - a path of this length is no file's name
                os.chdir("d")

    yield nest
    subprocess.run(["rm", "-r", str(folder)], check=True)


def tried(app: Migration, verb: str, damage: Callable[[], None]) -> Outcome:
    """What the verb says of a directory that has become strange; a cut-over meets it after the run."""
    del app.spec["target"]["path"]
    if verb == "snapshot":
        app.set("run", source="snapshot")
    if verb == "cutover":
        assert app.run().code == ExitCode.DONE
    damage()
    options = {"run": ("--no-spark", "--quiet"), "doctor": ("--no-spark",)}.get(verb, ())
    if verb == "inspect":
        outcome = app.commands.run([verb, str(app.source)], before=NO_HANGING)
    elif verb == "init":
        arguments = [verb, str(app.source), "--store", STORE, "--to", TIMESTAMPED]
        arguments += ["--output", str(app.folder / "written.toml")]
        outcome = app.commands.run(arguments, before=NO_HANGING)
    else:
        app.run(verb="formats")  # writes the spec
        outcome = app.commands.run([verb, *options, str(app.spec_file)], before=NO_HANGING)
    print(outcome)
    assert "Traceback" not in outcome.err
    return outcome


@every_verb
@pytest.mark.parametrize(
    ("name", "make", "kind"),
    [
        ("000099.sst", make_pipe, "a named pipe"),
        ("000099.log", make_pipe, "a named pipe"),
        ("000099.sst", link_to_zeros, "a device"),
        ("000099.blob", make_socket, "a socket"),
        ("000099.sst", make_loop, "a symbolic link that leads nowhere"),
        ("CURRENT", make_directory, "a directory"),
        ("OPTIONS-999999", make_pipe, "a named pipe"),
        ("LOCK", make_pipe, "a named pipe"),
    ],
)
def test_what_bears_the_name_of_a_file_and_is_none_is_named(
    app: Migration, verb: str, name: str, make: Callable[[Path], None], kind: str
) -> None:
    outcome = tried(app, verb, lambda: make(app.source / DATABASE / name))
    said = " ".join((outcome.out + outcome.err).split())
    assert outcome.code == (ExitCode.DONE if verb == "inspect" else ExitCode.REFUSED)
    assert f"{DATABASE}/{name} is {kind}, where a regular file belongs" in said


@pytest.mark.parametrize("name", [".checkpoint", f"{STORE}.position"])
@pytest.mark.parametrize("verb", ["plan", "run", "snapshot", "cutover"])
def test_a_side_file_that_is_a_pipe_is_named(app: Migration, verb: str, name: str) -> None:
    outcome = tried(app, verb, lambda: make_pipe(app.source / TASK / name))
    assert outcome.code == ExitCode.REFUSED
    assert f"{TASK}/{name} is a named pipe" in " ".join((outcome.out + outcome.err).split())


@every_verb
def test_a_socket_beside_the_stores_keeps_nothing_from_being_done(app: Migration, verb: str) -> None:
    def damage() -> None:
        make_socket(app.source / TASK / "jmx.sock")
        make_pipe(app.source / "agent")
        make_pipe(app.source / "0_7")  # named like a task

    assert tried(app, verb, damage).code == ExitCode.DONE


@every_verb
def test_an_identity_that_is_no_text_keeps_nothing_from_being_done(app: Migration, verb: str) -> None:
    def damage() -> None:
        (app.source / DATABASE / "IDENTITY").write_bytes(b"\xff\xfe\x80")

    assert tried(app, verb, damage).code == ExitCode.DONE


@every_verb
def test_directories_without_a_bottom_keep_nothing_from_being_done_in_place(
    app: Migration, verb: str, bottomless: Callable[[], None]
) -> None:
    assert tried(app, verb, bottomless).code == ExitCode.DONE


def test_a_published_directory_goes_without_what_is_no_state_and_says_so(app: Migration) -> None:
    make_socket(app.source / TASK / "jmx.sock")
    make_pipe(app.source / DATABASE.replace(STORE, "refunds") / "agent")
    planned = app.run(verb="plan")
    report = app.completes(expected_orders())
    assert f"{app.source}/{TASK}/jmx.sock is a socket: it is no state" in " ".join(planned.out.split())
    assert [warning for warning in report["warnings"] if "/agent is a named pipe" in warning]
    assert not (app.target / TASK / "jmx.sock").exists()
    assert (app.target / TASK / "rocksdb/refunds/CURRENT").is_file()
    assert not (app.target / TASK / "rocksdb/refunds/agent").exists()


def test_directories_without_a_bottom_cannot_be_carried_over(app: Migration, bottomless: Callable[[], None]) -> None:
    bottomless()
    check_clear(app.run(), ExitCode.REFUSED, "nested more than 64 deep", "move those away")


def linked_tables(app: Migration, *, is_absolute: bool) -> None:
    """Let the store's SSTs lie elsewhere."""
    elsewhere = app.folder / "tables"
    elsewhere.mkdir()
    for file in (app.source / DATABASE).glob("*.sst"):
        moved = file.rename(elsewhere / file.name)
        file.symlink_to(moved if is_absolute else os.path.relpath(moved, file.parent))


@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_snapshot_holds_the_tables_themselves_where_there_are_links(app: Migration, is_absolute: bool) -> None:
    linked_tables(app, is_absolute=is_absolute)
    del app.spec["target"]["path"]
    app.set("run", source="snapshot")
    outcome = app.run(verb="snapshot")
    assert outcome.code == (ExitCode.DONE if is_absolute else ExitCode.REFUSED)
    if is_absolute:
        assert [file for file in (app.home / "snapshot" / DATABASE).rglob("*.sst") if file.is_symlink()] == []
    else:
        assert "is a relative symbolic link, which breaks once the old store is moved" in outcome.message


def test_tables_that_are_absolute_links_can_be_switched_and_switched_back(app: Migration) -> None:
    linked_tables(app, is_absolute=True)
    del app.spec["target"]["path"]
    before = read_families(app.source / DATABASE)
    assert [app.run(verb=verb).code for verb in ("run", "cutover")] == [ExitCode.DONE] * 2
    assert "keyValueWithTimestamp" in read_families(app.source / DATABASE)
    assert app.run(verb="rollback").code == ExitCode.DONE
    assert read_families(app.source / DATABASE) == before
