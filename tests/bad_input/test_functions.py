"""Conversion functions that cannot be found, or do what no conversion may."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import Migration, raw_records
from tests.support import read_delta


def test_a_function_that_is_pure_only_in_the_sample_is_a_mismatch_and_never_published(raw: Migration) -> None:
    """What the sample does not see, the verification does: it converts everything once more."""
    raw.module(
        """
        import time
        from dataclasses import replace
        def convert(record):
            if record.key == b"key-00001234":
                return replace(record, value=str(time.time_ns()).encode())
            return record
        """
    )

    raw.fails(ExitCode.MISMATCH, "1 differing", 'key "key-00001234"', "value should be", "nothing was published")


RAISING = """
import asyncio
class Own(BaseException):
    pass
class Mute(Exception):
    def __str__(self):
        raise Own
class Odd(Exception):
    def __str__(self):
        return 7
def fail(error):
    raise error
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param("GeneratorExit('over')", "GeneratorExit: over", id="generator-exit"),
        ("asyncio.CancelledError()", "CancelledError"),
        ("Own('mine')", "Own: mine"),
        ("MemoryError()", "MemoryError"),
        ("Mute()", "Mute"),
        ("Odd()", "Odd"),
        ("RecursionError()", "RecursionError"),
        ("ValueError('half \\ud83d of it')", "ValueError: half \\ud83d of it"),
    ],
)
def test_whatever_a_function_raises_is_a_reject(raw: Migration, error: str, said: str) -> None:
    raw.module(RAISING + nonsense(f"fail({error})", where='record.key == b"key-00001234"'))

    raw.fails(ExitCode.FAILED, 'the key "key-00001234"', f"the function raised {said}", "on_reject")

    raw.set("run", on_reject="dead-letter", max_rejects=1)
    report = raw.completes({".": {key: value for key, value in raw_records().items() if key != b"key-00001234"}})
    (row,) = read_delta(Path(report["dead_letters"]))
    assert row["reason"] == f"the function raised {said}"


def test_an_interrupt_in_a_function_stays_one(raw: Migration) -> None:
    raw.module(RAISING + nonsense("fail(KeyboardInterrupt())", where='record.key == b"key-00001234"'))
    raw.set("run", on_reject="skip")

    raw.fails(ExitCode.INTERRUPTED)


def nonsense(result: str, *, where: str) -> str:
    """A function that gives this result for some records."""
    return f"""
from dataclasses import replace
def convert(record):
    return {result} if {where} else record
"""


@pytest.mark.parametrize("key", ['b"a" + record.key', 'b"key-%08d" % (int(record.key[4:]) - 1)'])
def test_keys_that_clash_between_two_chunks_fail_before_anything_is_assembled(raw: Migration, key: str) -> None:
    """Each chunk is in order, and the second comes before the first or begins with its last key."""
    raw.set("run", time_budget="0s")
    raw.fails(ExitCode.INTERRUPTED)
    (plan,) = raw.home.glob("plan-*.json")
    second = bytes.fromhex(json.loads(plan.read_text(encoding="utf-8"))["chunks"][1]["keys"]["start"])
    shutil.rmtree(raw.home)
    raw.set("run", time_budget="1h")
    raw.module(
        f"""
        from dataclasses import replace
        def convert(record):
            return record if record.key < {second!r} else replace(record, key={key})
        """
    )

    raw.fails(ExitCode.FAILED, "state chunk 1", "changes the order of keys, or maps two to one", second.decode()[:7])
    assert not any(raw.home.glob("new/*/state/CURRENT"))


def test_a_function_that_keeps_what_it_has_seen_is_not_pure(raw: Migration) -> None:
    raw.module(
        """
        seen = set()
        def convert(record):
            if record.key in seen:
                return None
            seen.add(record.key)
            return record
        """
    )

    raw.refused("not pure", 'the key "key-00000000"', "no clock, no random numbers")
