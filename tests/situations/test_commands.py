"""One situation for each exit code, with the command in a process of its own."""

from dataclasses import replace
from pathlib import Path

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import raw_migration
from tests.shared.commands import InProcess, run_from_scratch
from tests.situations.functions import body
from tests.situations.situation import Situation, raw
from tests.situations.table import SITUATIONS
from tests.support import tree_state

BY_NAME = {situation.name: situation for situation in SITUATIONS}
PURE_IN_THE_SAMPLE = """
if record.key == b"key-00001234":
    import time
    return replace(record, value=b"%d" % time.time_ns())
return record
"""
EACH = [
    BY_NAME["nothing wrong"],
    BY_NAME["the spec with nmae x"],
    BY_NAME["some are rejected"],
    replace(
        raw(
            "pure in the sample alone",
            ExitCode.MISMATCH,
            "1 differing",
            'key "key-00001234"',
            "value should be",
            "nothing was published",
            do=body(PURE_IN_THE_SAMPLE),
        ),
        make=lambda folder: raw_migration(InProcess(), folder),  # more records than a sample has
    ),
    raw("no time", ExitCode.INTERRUPTED, "run the same command again to resume", run={"time_budget": "0s"}),
    BY_NAME["a source that does not exist"],
]
OPTIONS = {"run": ["--no-spark", "--quiet"], "plan": [], "doctor": ["--no-spark"]}
VERBS = [("run", each) for each in EACH] + [(verb, EACH[-1]) for verb in ("plan", "doctor")]


@pytest.mark.parametrize(("verb", "situation"), VERBS, ids=[f"{verb}: {each.code.name}" for verb, each in VERBS])
def test_a_command_ends_with_the_code(verb: str, situation: Situation, folder: Path) -> None:
    migration = situation.arrange(folder)
    migration.write_spec()
    before = tree_state(folder)
    outcome = run_from_scratch([verb, *OPTIONS[verb], str(migration.spec_file)])
    text = " ".join((outcome.out + outcome.err).split())
    print(text)
    assert outcome.code == situation.code
    assert "Traceback" not in text
    assert all(words in text for words in situation.words(migration))
    if situation.code is not ExitCode.DONE:
        assert "next: " in text
        assert not migration.target.exists()
    if verb == "run":
        assert (outcome.err == "") == (situation.code is ExitCode.DONE)
        assert (outcome.out == "") == (situation.code is not ExitCode.DONE)
    if verb != "run" or situation.code in (ExitCode.USAGE, ExitCode.REFUSED):
        assert tree_state(folder) == before


def test_every_exit_code_but_that_of_a_bug_is_met() -> None:
    assert {situation.code for situation in EACH} == {*ExitCode} - {ExitCode.BUG}
