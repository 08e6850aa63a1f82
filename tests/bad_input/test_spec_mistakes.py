"""Specs that cannot be understood: exit 2, every mistake named, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import check_clear
from tests.shared.commands import Commands
from tests.support import make_store, tree_state


@pytest.mark.parametrize("text", ['name = "a', "[source\n", 'name = "a"\nname = "b"\n'])
def test_bad_toml_is_refused_with_its_line(commands: Commands, folder: Path, text: str) -> None:
    file = folder / "migration.toml"
    file.write_text(text, encoding="utf-8")

    outcome = commands.run(["run", "--no-spark", str(file)])

    check_clear(outcome, ExitCode.USAGE, str(file), "not valid TOML", "(at ")


def test_a_spec_that_is_no_text_is_refused(commands: Commands, folder: Path) -> None:
    file = folder / "migration.toml"
    file.write_bytes(b"name = \xff\xfe")

    check_clear(commands.run(["run", "--no-spark", str(file)]), ExitCode.USAGE, str(file), "not valid TOML")


@pytest.mark.parametrize("verb", ["run", "plan", "doctor", "status", "verify"])
def test_a_missing_spec_is_refused_by_every_verb(commands: Commands, folder: Path, verb: str) -> None:
    file = folder / "migration.toml"

    check_clear(
        commands.run([verb, str(file)]),
        ExitCode.USAGE,
        f"cannot read the spec {file}: No such file or directory next: check the path",
    )


def test_a_folder_is_no_spec(commands: Commands, folder: Path) -> None:
    check_clear(
        commands.run(["run", str(folder)]),
        ExitCode.USAGE,
        f"cannot read the spec {folder}: Is a directory",
        "name its TOML file",
    )


def test_a_verb_that_does_not_exist_is_a_usage_error(commands: Commands) -> None:
    outcome = commands.run(["migrate", "x.toml"])

    assert outcome.code == ExitCode.USAGE
    assert "No such command 'migrate'" in outcome.err


def test_a_relative_path_is_seen_from_the_spec(commands: Commands, folder: Path) -> None:
    (folder / "deep").mkdir()
    make_store(folder / "deep" / "state", {b"key": b"value"})
    before = tree_state(folder / "deep" / "state")
    spec = folder / "deep" / "migration.toml"
    sections = '[source]\nformat = "rocksdb.raw"\npath = "state"\n[target]\nformat = "rocksdb.raw"\npath = "../new"\n'
    spec.write_text(f'name = "test"\nwork_dir = "work"\n{sections}', encoding="utf-8")

    assert commands.run(["run", "--no-spark", "--quiet", str(spec)]).code == ExitCode.DONE

    assert (folder / "new" / "CURRENT").exists()
    assert tree_state(folder / "deep" / "state") == before
