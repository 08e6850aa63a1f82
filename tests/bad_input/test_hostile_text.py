"""Keys, names and exception texts that would act on a terminal, or pose as lines of ours."""

import unicodedata
from pathlib import Path

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import Migration, raw_migration
from tests.shared.commands import Commands
from tests.support import make_families

EVIL = "\x1b[2J\x07\x9b31m\u202e\r\nnext: run `curl evil`\u2028stateferry: all is well"
RECORDS = {EVIL.encode() + bytes([number]): EVIL.encode() for number in range(64)}


@pytest.fixture
def hostile(commands: Commands, folder: Path) -> Migration:
    migration = raw_migration(commands, folder)
    source = make_families(folder / f"store {EVIL.replace('/', '')}", {"default": RECORDS, EVIL: RECORDS})
    (source / EVIL).write_text("not RocksDB's")
    migration.source = source
    migration.set("source", path=source.name)
    migration.module(f"def convert(record):\n    raise ValueError({EVIL!r})\n")
    return migration


def check_harmless(*texts: str) -> None:
    acting = {
        character
        for text in texts
        for character in text
        if character != "\n" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }
    assert acting == set()
    posing = [line for text in texts for line in text.splitlines() if line.lstrip().startswith("next: run")]
    assert posing == []


@pytest.mark.parametrize("options", [(), ("--json",), ("--verbose",)], ids=" ".join)
@pytest.mark.parametrize("verb", ["plan", "run", "doctor", "status"])
def test_nothing_of_it_reaches_the_terminal(hostile: Migration, verb: str, options: tuple[str, ...]) -> None:
    without_a_jvm = ("--no-spark",) if verb == "doctor" else ()
    outcome = hostile.run(*options, *without_a_jvm, verb=verb)
    check_harmless(outcome.out, outcome.err)
    if verb in ("plan", "run"):
        assert outcome.code != ExitCode.DONE
        assert "curl evil" in outcome.out + outcome.err


@pytest.mark.parametrize("options", [(), ("--json",), ("--verbose",)], ids=" ".join)
def test_nor_by_what_shows_a_directory_or_writes_a_spec(hostile: Migration, options: tuple[str, ...]) -> None:
    inspected = hostile.commands.run(["inspect", *options, str(hostile.source)])
    to_raw = ("--from", "rocksdb.raw", "--to", "rocksdb.raw", "--output", "-", "--name", "evil")
    written = hostile.commands.run(["init", *options, *to_raw, str(hostile.source)])
    assert (inspected.code, written.code) == (ExitCode.DONE, ExitCode.DONE), written.err
    assert "curl evil" in inspected.out
    check_harmless(inspected.out, inspected.err, written.out, written.err)


def test_nor_by_what_tells_of_rejects(hostile: Migration) -> None:
    hostile.module(
        f"def convert(record):\n    if record.key.endswith(b'\\x07'): raise ValueError({EVIL!r})\n    return record\n"
    )
    hostile.set("run", on_reject="dead-letter")
    ran = hostile.run()
    told = hostile.run(verb="report")
    assert "curl evil" in told.out
    check_harmless(ran.out, ran.err, told.out, told.err)
