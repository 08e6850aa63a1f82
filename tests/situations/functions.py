"""Conversion functions that cannot be found, or break a rule of conversions."""

import shutil
import textwrap

import pytest

import migrate
from migrate import ExitCode, RefusedError, run
from tests.bad_input.support import Migration, Stores, raw_records
from tests.situations.situation import (
    DONE,
    FAILED,
    RECORDS,
    REFUSED,
    USAGE,
    Do,
    Situation,
    app,
    completes,
    nothing,
    published,
    raw,
)
from tests.support import make_families, make_store, numbered, read_delta

SAME = "def convert(record):\n    return record\n"
ONE = 'record.key == b"key-00001234"'
REJECT_20 = "if record.key.endswith(b'77'): raise ValueError('x')\nreturn record"
"""Rejects 20 of 2000 records."""
DROP_20 = "return None if record.key.endswith(b'77') else record"
RAISING = """
import asyncio
from formats import Headers
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
LONG = {"serde": "int64"}
KEY_CHANGE = {"allow": ["key-change"]}


def module(code: str, function: str = "convert") -> Do:
    """Write a module beside the spec, and name its function."""
    return lambda migration: migration.module(code, function=function)


def body(lines: str, before: str = "") -> Do:
    """A function with this body, of `record`."""
    head = "from dataclasses import replace\nimport itertools, random\ncount, seen = itertools.count(), set()"
    return module(f"{head}\n{before}\ndef convert(record):\n{textwrap.indent(textwrap.dedent(lines), '    ')}\n")


def one(result: str) -> Do:
    """A function with this result for a single record."""
    return body(f"return {result} if {ONE} else record", RAISING)


def every(result: str) -> Do:
    return body(f"return {result}", RAISING)


def keyed(key: str) -> Do:
    return body(f"return replace(record, key={key})")


def another_then(migration: Migration) -> None:
    """The plan was stored with the function that failed: another one is another migration."""
    assert migration.is_planned
    migration.module(SAME)
    with pytest.raises(RefusedError, match="changed since: function") as refused:
        run(migration.load())
    assert "stateferry abandon SPEC" in refused.value.hint


def without(key: bytes) -> dict[bytes, bytes]:
    return {each: value for each, value in raw_records(RECORDS).items() if not each.endswith(key)}


def letter(reason: str) -> Do:
    """Check that the record is the only dead letter, with this reason."""

    def check(migration: Migration) -> None:
        completes(stores=lambda: {".": without(b"00001234")}, run={"on_reject": "dead-letter", "max_rejects": 1})(
            migration
        )
        (row,) = read_delta(migration.home / "dead-letters")
        assert row["reason"] == reason

    return check


def kept() -> Stores:
    return {".": without(b"77")}


def goes_on_with(**run: object) -> Do:
    """Check that nothing was assembled, and that a raised cap completes."""

    def check(migration: Migration) -> None:
        assert not (migration.home / "new").exists()
        completes(stores=kept, run=run)(migration)
        assert migrate.status(migration.load()).totals.rejected == 20

    return check


def numbers(number: int, odd: dict[bytes, bytes] | None = None) -> Do:
    """Let each value be this number of eight bytes, but for these."""

    def make(migration: Migration) -> None:
        shutil.rmtree(migration.source)
        make_store(migration.source, dict.fromkeys(raw_records(RECORDS), number.to_bytes(8, "big")) | (odd or {}))

    return make


def values(old: dict[str, str], new: dict[str, str], **conversion: object) -> dict[str, object]:
    return {"value": {"from": old, "to": new}, **conversion}


def two_families(migration: Migration) -> None:
    shutil.rmtree(migration.source)
    make_families(migration.source, {"good": numbered(300), "bad": numbered(300, prefix=b"bad")})
    body("if record.key.startswith(b'bad'): raise ValueError('x')\nreturn record")(migration)


def rejects(
    name: str,
    code: ExitCode = DONE,
    *,
    said: tuple[str, ...] = (),
    do: Do | None = None,
    then: Do = nothing,
    **run: object,
) -> Situation:
    """Twenty of 2000 records cannot be converted."""
    return raw(name, code, *said, do=do or body(REJECT_20), then=then, run=run)


IMPORT = "'conversion:convert' cannot be imported"
CANNOT_IMPORT = [
    ("a syntax error", "def convert(record)\n    return record\n", "SyntaxError", "conversion.py, line 1"),
    ("a missing import", f"import does_not_exist\n{SAME}", "ModuleNotFoundError", "does_not_exist"),
    ("an exception", "raise RuntimeError('no licence')\n", "RuntimeError: no licence"),
    ("an exit", "import sys\nsys.exit(0)\n", "SystemExit: 0"),
    *((f"the exception {error}", f"{RAISING}\nraise {error}\n{SAME}", error.partition("(")[0])
      for error in ("Own('mine')", "Mute()", "ValueError('\\ud83d')")),
]  # fmt: skip
NONSENSE = [
    ("record.value", "the function returned bytes, not a StateRecord or None"),
    ("(record.key, record.value)", "the function returned tuple"),
    ("replace(record, value='text')", "expected bytes, got str"),
    ("replace(record, value=None)", "expected bytes, got NoneType"),
    ("replace(record, key=7)", "expected bytes, got int"),
    ("replace(record, headers=7)", "the function gave a record int as headers"),
    ("1 / 0", "the function raised ZeroDivisionError: division by zero"),
    ("exit(0)", "the function raised SystemExit"),
]
RAISED = [
    ("GeneratorExit('over')", "GeneratorExit: over"),
    ("asyncio.CancelledError()", "CancelledError"),
    ("Own('mine')", "Own: mine"),
    ("MemoryError()", "MemoryError"),
    ("Mute()", "Mute"),
    ("Odd()", "Odd"),
    ("RecursionError()", "RecursionError"),
    ("ValueError('half \\ud83d of it')", "ValueError: half \\ud83d of it"),
]
NO_HEADERS = [
    ("generator", "Headers((name, value) for name, value in ())", "Headers of generator, not of bytes"),
    ("text", 'Headers("New")', "Headers of str, not of bytes"),
    ("bytes", r'Headers(b"\xff\xff")', "headers that cannot be read"),
]
IMPURE = {
    "random": "return replace(record, value=random.randbytes(8))",
    "counter": "return replace(record, value=record.value + b'%d' % next(count))",
    "set": "seen.symmetric_difference_update({record.key})\nreturn record if record.key in seen else None",
}
NO_ORDER = "the conversion changes the order of keys"
TWO_BECOME_ONE = "two old keys become one"
KEYS = [
    ('b"key-00001233" if record.key == b"key-00001234" else record.key', TWO_BECOME_ONE),
    ('b"zzz" if record.key == b"key-00001234" else record.key', NO_ORDER),
    ("bytes(reversed(record.key))", NO_ORDER),
    ('b"one"', TWO_BECOME_ONE),
    ("record.key[:-1]", TWO_BECOME_ONE),
    ("b'key-00001000' if record.key == b'key-00000999' else record.key", TWO_BECOME_ONE),
    ("b'%08d' % (9999 - int(record.key[4:]))", NO_ORDER),
    ("b'ba'[int(record.key[4:]) >= 1000 :][:1] + record.key", NO_ORDER),
]
SITUATIONS = [
    raw("a module that is not there", USAGE, "'nowhere:convert' cannot be imported", "No module named 'nowhere'",
        "py_files", conversion={"function": "nowhere:convert"}),
    raw("a module without the function", USAGE, "has no function 'konvert'", "conversion.py", "did you mean 'convert'?",
        do=module(SAME, "konvert")),
    raw("a name that is no function", USAGE, "has no function 'convert'", "conversion.py", do=module("convert = 7\n")),
    *(raw(f"a module with {what}", USAGE, IMPORT, *said, do=module(code)) for what, code, *said in CANNOT_IMPORT),
    *(raw(f"a {key} that is not there", USAGE, f"[conversion] {key}", f"{{folder}}/{name}", "is not a file",
          conversion={key: [name]}, do=module(SAME))
      for key, name in (("py_files", "lib.zip"), ("files", "codes.csv"))),
    *(raw(f"a function that is not pure, {what}", REFUSED, "not pure", 'the key "key-0000000',
          "no clock, no random numbers", do=body(lines), needs_records=True,
          then=completes(module(SAME)))
      for what, lines in IMPURE.items()),
    *(raw(f"one record becomes {result}", FAILED, "state chunk ", "column family 'default'",
          'the key "key-00001234"', said, "on_reject", do=one(result), then=another_then) for result, said in NONSENSE),
    *(raw(f"for one record {error} is raised", FAILED, 'the key "key-00001234"', f"raised {said}",
          "on_reject", do=one(f"fail({error})"), then=letter(f"the function raised {said}")) for error, said in RAISED),
    *(raw(f"one record gets headers of {what}", FAILED, said, 'the key "key-00001234"',
          do=one(f"replace(record, headers={headers})")) for what, headers, said in NO_HEADERS),
    *(raw(f"every record gets headers of {what}", REFUSED, "none of ", said,
          do=every(f"replace(record, headers={headers})"), needs_records=True) for what, headers, said in NO_HEADERS),
    *(raw(f"every record becomes {result}", REFUSED, "none of ", "sampled records",
          'the first one, "key-00000000": the function', "mend the function", do=every(result), needs_records=True)
      for result in ("record.value", "exit(0)", "fail(Own('mine'))", "fail(Mute())", "fail(MemoryError())",
                     "fail(ValueError('\\ud83d'))")),
    raw("a file that a function does not find", REFUSED, "the function cannot reach what it needs",
        "/nowhere/codes.csv", "[conversion] files", do=body("open('/nowhere/codes.csv')\nreturn record"),
        needs_records=True),
    *(raw(f"the keys {key}", FAILED, said, "[run] sort = true" if said == NO_ORDER else "[conversion] on_collision",
          do=keyed(key), conversion=KEY_CHANGE, run={"sort": False}) for key, said in KEYS),
    raw("keys in another order, without Spark", REFUSED, "the run sorts the new keys, which Spark does", "--no-spark",
        do=keyed("bytes(reversed(record.key))"), conversion=KEY_CHANGE, plan=DONE),
    app("a changed key of a Kafka Streams store", REFUSED, "sampled records", "which decides the task",
        'allow = ["key-change"]', conversion={"allow": ["changelog", "unclean-source"]}, do=keyed("b'x' + record.key"),
        needs_records=True),
    app("a changed key of a store that becomes a versioned one", REFUSED, "which decides the task",
        needs_records=True, target={"format": "kafka-streams.versioned"}, do=keyed("record.key + b'!'"),
        conversion={"allow": ["changelog", "unclean-source"], "default_timestamp_ms": 5}),
    app("a changed end of a Kafka Streams key", REFUSED, "which decides the task", needs_records=True,
        conversion={"allow": ["changelog", "unclean-source"]}, do=keyed("record.key + b'!'")),
    raw("numbers of four bytes read as eight", REFUSED, "none of ", "sampled records",
        "does [conversion.value] name the serde", "!function", needs_records=True,
        conversion=values({"serde": "int32"}, {"serde": "int64"})),
    raw("numbers of eight bytes that four do not hold", REFUSED, "is not a signed 32-bit number",
        "name in [conversion.key] or [conversion.value] a serde", "!function", needs_records=True, do=numbers(1 << 40),
        conversion=values(LONG, {"serde": "int32"})),
    raw("a function that returns no number", REFUSED, "expected a whole number, got str", "![source] format",
        "mend what the function returns, or name in [conversion", needs_records=True,
        conversion=values(LONG, LONG),
        do=lambda m: (numbers(1 << 40)(m), every("replace(record, value='text')")(m))),
    *(raw(f"one value that is no number, {run}", FAILED, "[source] format", "the serdes of [conversion]", "!function",
          do=numbers(1, {b"key-00001234": b"odd"}), run=run,
          conversion=values(LONG, {**LONG, "endian": "little"}, allow=["looks-converted"]))
      for run in ({}, {"on_reject": "skip", "max_rejects": 0}, {"on_reject": "skip", "max_reject_share": 0})),
    rejects("some are rejected", FAILED,
            said=("state chunk 0 [first, ", 'the key "key-00000077" (value of 20 bytes)',
                  "the function raised ValueError: x", 'on_reject = "skip" or "dead-letter"'),
            then=completes(stores=kept, run={"on_reject": "skip", "max_rejects": 20})),
    raw("some exit", FAILED, "the function raised SystemExit",
        do=body(REJECT_20.replace("ValueError('x')", "SystemExit(0)"))),
    raw("all are rejected, and skipped", REFUSED, "none of ", "the function raised ValueError: x (", "conversion.py:", 
        "mend the function", do=body("raise ValueError('x')"),
        run={"on_reject": "skip"}, needs_records=True),
    rejects("some are dropped, some rejected", on_reject="skip", max_reject_share=0.5, max_dropped_share=0.5,
            do=body("if record.key.endswith(b'7'): raise ValueError('seven')\n"
                    "return None if record.key.endswith(b'3') else record")),
    rejects("one of two families is rejected", do=two_families, on_reject="skip", max_rejects=300),
    rejects("as many rejects as max_rejects", on_reject="skip", max_rejects=20,
            then=published(kept, records_in=2000, records_out=1980, rejected=20)),
    *(rejects(f"more rejects than max_rejects, {cap}, {policy}", FAILED, on_reject=policy, max_rejects=cap,
              said=(f"max_rejects allows {cap}", "raise the cap", "finished chunks are kept"),
              then=goes_on_with(max_rejects=20))
      for policy in ("skip", "dead-letter") for cap in (0, 2, 19)),
    rejects("as many rejects as max_reject_share", on_reject="skip", max_reject_share=0.01),
    rejects("more rejects than max_reject_share", FAILED, on_reject="skip", max_reject_share=0.0099,
            said=("20 of 2000 records", "(1.00%)", "max_reject_share allows 0.99%", "raise the cap"),
            then=goes_on_with(max_reject_share=0.01)),
    raw("as many dropped as max_dropped", do=body(DROP_20), run={"max_rejects": 0, "max_dropped": 20},
        then=published(kept, dropped=20, rejected=0)),
    raw("all are dropped", do=body("return None"), conversion={"allow": ["drop"]}, plan=REFUSED,  # it doubts that
        then=published(lambda: {".": {}}, dropped=2000, records_out=0)),
    rejects("rejects that nothing accepts", FAILED, said=("--accept-rejects 20",), on_reject="skip"),
    raw("rejects before a cut-over", do=body(REJECT_20), run={"on_reject": "skip"}, target={"path": None}),
    raw("published unverified", REFUSED, '[run] verify = "off"', "--unverified", run={"verify": "off"}),
    raw("published unverified, as allowed", run={"verify": "off"}, conversion={"allow": ["unverified"]}),
]  # fmt: skip
