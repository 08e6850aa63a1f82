"""Conversion functions that cannot be found, or do what no conversion may."""

import json
import shutil

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import Migration, raw_records


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
@pytest.mark.parametrize(
    ("given", "loss"), [("timestamp_ms=5", "timestamp"), ("headers=Headers.of([('a', b'b')])", "headers")]
)
@pytest.mark.parametrize("where", ["True", 'record.key == b"key-00001234"'], ids=["all", "one"])
def test_what_a_function_gives_in_vain_is_refused_until_that_loss_is_allowed(
    raw: Migration, policy: str, given: str, loss: str, where: str
) -> None:
    raw.module("from formats import Headers\n" + nonsense(f"replace(record, {given})", where=where))
    raw.set("run", on_reject=policy)
    said = (f"{loss}, which the new format has no room for", f'allow = ["loss:{loss}"]')
    raw.fails(ExitCode.REFUSED, *said)
    planned = raw.run("--full", verb="plan")
    assert planned.code == ExitCode.REFUSED
    assert all(words in planned.out for words in said)
    raw.set("conversion", allow=[f"loss:{loss}"])
    raw.completes({".": raw_records()})


def test_an_interrupt_in_a_function_stays_one(raw: Migration) -> None:
    raw.module(
        "def fail(error):\n    raise error\n"
        + nonsense("fail(KeyboardInterrupt())", where='record.key == b"key-00001234"')
    )
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
    raw.set("run", sort=False)
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
