"""Conversion functions that cannot be found, or do what no conversion may."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import Migration, raw_records
from tests.support import read_delta

SAME = "def convert(record):\n    return record\n"


def test_a_module_that_is_not_there_is_a_usage_error(raw: Migration) -> None:
    raw.set("conversion", function="nowhere:convert")

    raw.fails(ExitCode.USAGE, "'nowhere:convert' cannot be imported", "No module named 'nowhere'", "py_files")
    assert not raw.home.exists()


def test_a_module_without_the_function_is_a_usage_error(raw: Migration) -> None:
    raw.module(SAME, function="konvert")

    raw.fails(ExitCode.USAGE, "has no function 'konvert'", "conversion.py", "did you mean 'convert'?")


def test_a_name_that_is_no_function_is_a_usage_error(raw: Migration) -> None:
    raw.module("convert = 7\n")

    raw.fails(ExitCode.USAGE, "has no function 'convert'", "conversion.py")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def convert(record)\n    return record\n", ("SyntaxError", "conversion.py, line 1")),
        ("import does_not_exist\n" + SAME, ("ModuleNotFoundError", "does_not_exist")),
        ("raise RuntimeError('no licence')\n", ("RuntimeError: no licence",)),
        ("import sys\nsys.exit(0)\n", ("SystemExit: 0",)),
    ],
)
def test_a_module_that_fails_is_a_usage_error(raw: Migration, code: str, said: tuple[str, ...]) -> None:
    raw.module(code)

    raw.fails(ExitCode.USAGE, "'conversion:convert' cannot be imported", *said)
    assert not raw.home.exists()


def test_a_function_that_is_mended_before_anything_was_planned_needs_no_new_name(raw: Migration) -> None:
    raw.module("import random\ndef convert(record):\n    return None if random.random() < 0.5 else record\n")
    raw.refused("not pure")

    raw.module(SAME)
    raw.completes({".": raw_records()})


def test_a_missing_py_file_is_a_usage_error(raw: Migration) -> None:
    raw.module(SAME)
    raw.set("conversion", py_files=["lib.zip"])

    raw.fails(ExitCode.USAGE, "[conversion] py_files", str(raw.folder / "lib.zip"), "is not a file")


@pytest.mark.parametrize(
    "code",
    [
        """
        import random
        from dataclasses import replace
        def convert(record):
            return replace(record, value=random.randbytes(8))
        """,
        """
        from dataclasses import replace
        seen = 0
        def convert(record):
            global seen
            seen += 1
            return replace(record, value=record.value + str(seen).encode())
        """,
        """
        seen = set()
        def convert(record):
            if record.key in seen:
                return None
            seen.add(record.key)
            return record
        """,
    ],
    ids=["random", "counter", "first-time"],
)
def test_a_function_that_is_not_pure_is_refused(raw: Migration, code: str) -> None:
    raw.module(code)

    raw.refused("not pure", 'the key "key-00000000"', "no clock, no random numbers")


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


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("record.value", "the function returned bytes, not a StateRecord or None"),
        ("(record.key, record.value)", "the function returned tuple"),
        ("replace(record, value='text')", "expected bytes, got str"),
        ("replace(record, value=None)", "expected bytes, got NoneType"),
        ("replace(record, key=7)", "expected bytes, got int"),
        ("replace(record, headers=7)", "the function gave a record int as headers"),
        ("1 / 0", "the function raised ZeroDivisionError: division by zero"),
        ("exit(0)", "the function raised SystemExit"),
    ],
)
def test_nonsense_for_one_record_fails_its_chunk_and_names_the_key(raw: Migration, result: str, said: str) -> None:
    raw.module(nonsense(result, where='record.key == b"key-00001234"'))

    raw.fails(ExitCode.FAILED, "state chunk ", "column family 'default'", 'the key "key-00001234"', said, "on_reject")
    assert raw.is_planned

    raw.module(SAME)
    raw.refused("changed since: function", "stateferry abandon SPEC")


@pytest.mark.parametrize("result", ["record.value", "exit(0)"])
def test_nonsense_for_every_record_is_refused_by_the_sample(raw: Migration, result: str) -> None:
    raw.module(nonsense(result, where="True"))

    raw.refused("none of ", "sampled records", 'the first one, "key-00000000": the function', "fit its records")
    assert not raw.is_planned


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


@pytest.mark.parametrize("error", ["Own('mine')", "Mute()", "MemoryError()", "ValueError('\\ud83d')"])
def test_whatever_a_function_raises_for_every_record_is_refused_by_the_sample(raw: Migration, error: str) -> None:
    raw.module(RAISING + nonsense(f"fail({error})", where="True"))

    raw.refused("none of ", "sampled records", "the function raised")
    tried = raw.run("--full", "--json", verb="plan")
    assert tried.code == ExitCode.REFUSED, tried.err
    assert "the function raised" in json.loads(tried.out)["tried"]["rejects"][0]["reason"]
    assert "Traceback" not in tried.err


@pytest.mark.parametrize("error", ["Own('mine')", "Mute()", "ValueError('\\ud83d')"])
def test_whatever_a_module_raises_is_a_usage_error(raw: Migration, error: str) -> None:
    raw.module(f"{RAISING}\nraise {error}\n{SAME}")

    raw.fails(ExitCode.USAGE, "'conversion:convert' cannot be imported", error.partition("(")[0])


def test_an_interrupt_in_a_function_stays_one(raw: Migration) -> None:
    raw.module(RAISING + nonsense("fail(KeyboardInterrupt())", where='record.key == b"key-00001234"'))
    raw.set("run", on_reject="skip")

    raw.fails(ExitCode.INTERRUPTED)


def test_a_file_that_a_function_does_not_find_is_a_sentence(raw: Migration) -> None:
    raw.module("def convert(record):\n    open('/nowhere/codes.csv')\n    return record\n")

    raw.refused("the function cannot reach what it needs", "/nowhere/codes.csv", "[conversion] files")


def nonsense(result: str, *, where: str) -> str:
    """A function that gives this result for some records."""
    return f"""
from dataclasses import replace
def convert(record):
    return {result} if {where} else record
"""


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ('b"key-00001233" if record.key == b"key-00001234" else record.key', "two old keys become one"),
        ('b"zzz" if record.key == b"key-00001234" else record.key', "the conversion changes the order of keys"),
        ("bytes(reversed(record.key))", "the conversion changes the order of keys"),
        ('b"one"', "two old keys become one"),
    ],
)
def test_keys_that_do_not_stay_in_order_fail_their_chunk(raw: Migration, key: str, said: str) -> None:
    raw.module(f"from dataclasses import replace\ndef convert(record):\n    return replace(record, key={key})\n")

    raw.fails(ExitCode.FAILED, said, "the function must keep the order of keys and map no two keys to one")


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


def test_a_changed_key_of_a_kafka_streams_store_is_refused_unless_allowed(app: Migration) -> None:
    app.set("conversion", allow=["changelog", "unclean-source"])
    app.module(
        "from dataclasses import replace\ndef convert(record):\n    return replace(record, key=b'x' + record.key)\n"
    )

    app.refused("sampled records", "the key decides the task", 'allow = ["key-change"]')
