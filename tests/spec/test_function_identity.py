"""The same function is known again in another process, whatever the order of its sets there; another one is not."""

import functools
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from formats import StateRecord
from migrate import ExitCode, load_spec, run
from migrate.spec.conversion import conversion_ref
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import OWN_PROCESS, parsed, tree_digest, with_fingerprint
from migrate.spec.user_function import files_for_executors
from tests.support import RAW, make_store, numbered, read_family

ROOT = Path(__file__).parents[2]
RECORDS = 300
SPEC = """
name = "sets"
work_dir = "work"
[source]
format = "rocksdb.raw"
path = "store"
[target]
format = "rocksdb.raw"
[conversion]
function = "conversion:convert"
[run]
chunk_size = "2 KiB"
time_budget = "{budget}"
"""
WITH_SETS = """
from dataclasses import replace
from functools import partial

def _convert(record, codes, kinds=frozenset({"a", "b", "c"})):
    if record.key[-1:] in {b"1", b"2", b"3"} or "x" in kinds:
        return replace(record, value=record.value.upper())
    return replace(record, value=record.value + b"%d" % len(codes))

convert = partial(_convert, codes={"one", "two", "three"})
"""


def python(seed: int, *arguments: str, cwd: Path, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    python_path = os.pathsep.join(map(str, (*path, ROOT)))
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": python_path}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)


def test_a_function_with_sets_is_resumed_and_cut_over_by_other_processes(tmp_path: Path) -> None:
    make_store(tmp_path / "store", numbered(RECORDS))
    (tmp_path / "conversion.py").write_text(WITH_SETS)
    spec = tmp_path / "migration.toml"

    def command(seed: int, verb: str, *options: str) -> int:
        done = python(seed, "-c", "from migrate.cli import main; main()", verb, *options, str(spec), cwd=tmp_path)
        print(done.stderr)
        return done.returncode

    spec.write_text(SPEC.format(budget="0s"))
    assert command(1, "run", "--no-spark") == ExitCode.INTERRUPTED
    spec.write_text(SPEC.format(budget="1h"))
    assert command(2, "run", "--no-spark") == ExitCode.DONE
    assert command(3, "verify", "--no-spark") == ExitCode.DONE
    assert command(4, "cutover") == ExitCode.DONE
    assert len(read_family(tmp_path / "store")) == RECORDS


ON_AN_EXECUTOR = """
import pickle, sys
from migrate.errors import RefusedError
from migrate.spec.fingerprint import checked_code, tracking_imports
from migrate.spec.conversion import load_conversion
ref = pickle.load(open("ref", "rb"))
with tracking_imports(ref):
    _, value = load_conversion(ref).convert(b"k", b"v")
try:
    print(value.decode(), *sorted(checked_code(ref)))
except RefusedError as error:
    print(error.message)
"""


LOADED = "vcm codes.csv conversion.py lib.zip/tables/__init__.py mapping.py"


def test_an_executor_that_does_not_see_the_spec_looks_at_what_it_was_sent(tmp_path: Path) -> None:
    here, sent = tmp_path / "here", tmp_path / "sent"
    here.mkdir()
    sent.mkdir()
    with zipfile.ZipFile(here / "lib.zip", "w") as archive:
        archive.writestr("tables/__init__.py", "MORE = b'm'\n")
    (here / "mapping.py").write_text(
        "from pathlib import Path\nCODE = Path(__file__).with_name('codes.csv').read_bytes()\n"
    )
    (here / "codes.csv").write_text("c")
    (here / "conversion.py").write_text(
        "from dataclasses import replace\ndef convert(record):\n    import mapping, tables\n"
        "    return replace(record, value=record.value + mapping.CODE + tables.MORE)\n"
    )
    spec = SPEC.format(budget="1h").replace("[run]", 'py_files = ["lib.zip"]\nfiles = ["codes.csv"]\n[run]')
    (here / "migration.toml").write_text(spec)
    ref = conversion_ref(load_spec(here / "migration.toml"))
    for file in files_for_executors(ref):
        shutil.copy(file, sent)
    (sent / "ref").write_bytes(pickle.dumps(ref))

    def work() -> str:
        done = python(1, "-c", ON_AN_EXECUTOR, cwd=sent, path=(sent, sent / "lib.zip"))
        return done.stdout.strip() or done.stderr

    assert work() == LOADED  # it sees the spec too, and imports some modules from here, some from there
    here.rename(tmp_path / "gone")
    assert work() == LOADED
    (sent / "codes.csv").write_text("C")
    assert work() == "codes.csv, which the function is made of, changed during the run"


OBJECTS = """
import sys
from dataclasses import replace
from functools import partial, wraps
from migrate import migrate_store
{statement}

def named(function):
    @wraps(function)
    def wrapped(record, **more):
        return function(record, **more)
    return wrapped

def outer():
    captured = {{"p", "q", "r"}}
    @named
    def convert(record, kinds, known={{"a", "b", "c"}}):
        return replace(record, value=record.value + b"%d" % len(captured | known | kinds))
    return convert

class Stop(Exception):
    pass

def stop(event):
    if event.name == "chunk.committed" and sys.argv[1] == "stop":
        raise Stop

convert = {convert}
migrate_store("store", "new", source="rocksdb.raw", target="rocksdb.raw", convert=convert, on_event=stop)
"""
WITH_VALUES = 'partial(outer(), kinds=frozenset({"one", "two", "three"}))'
AS_A_LAMBDA = "lambda record: replace(record, value=record.value + bytes(map(lambda each: each, b'9')))"
IMPORTED = "lambda record: replace(record, value=record.value + mapping.CODE)"


def _resumed(folder: Path, statement: str = "", *, convert: str, way: str = "file", between: str = "") -> str:
    """What the second process says, after the first one was stopped; empty: it is done."""
    make_store(folder / "store", numbered(RECORDS))
    text = OBJECTS.format(statement=statement, convert=convert)
    (folder / "script.py").write_text(text)
    (folder / "mapping.py").write_text("CODE = b'9'\n")
    program = ("script.py",) if way == "file" else ("-c", text)
    assert "Stop" in python(1, *program, "stop", cwd=folder).stderr
    if between:
        with (folder / between).open("a") as file:
            file.write("X = 1\n")
    finished = python(2, *program, "go", cwd=folder)
    return finished.stderr if finished.returncode else ""


@pytest.mark.parametrize("convert", [WITH_VALUES, AS_A_LAMBDA, IMPORTED], ids=["values", "lambda", "imported"])
def test_a_function_given_as_an_object_is_known_again_with_what_it_carries(tmp_path: Path, convert: str) -> None:
    assert not _resumed(tmp_path, "import mapping", convert=convert)
    assert set(read_family(tmp_path / "new").values()) == {value + b"9" for value in numbered(RECORDS).values()}


@pytest.mark.parametrize("changed", ["script.py", "mapping.py"])
def test_a_function_given_as_an_object_is_another_one_once_its_modules_change(tmp_path: Path, changed: str) -> None:
    said = _resumed(tmp_path, "import mapping", convert=IMPORTED, between=changed)
    assert f"changed since: function{': mapping.py' if changed == 'mapping.py' else ''}" in said


@pytest.mark.parametrize(
    ("way", "convert"), [("prompt", AS_A_LAMBDA), ("file", "partial(lambda record, it: record, it=Stop())")]
)
def test_what_no_other_process_recognizes_is_told_to_be_given_by_name(tmp_path: Path, way: str, convert: str) -> None:
    said = _resumed(tmp_path, convert=convert, way=way)
    assert "changed since: function\n" in said
    assert "Make it a function of a module, which a spec names: module:function" in said
    assert "stateferry abandon SPEC" in said


def _digest(function: Callable[..., StateRecord | None]) -> str:
    return dict(with_fingerprint(ConversionRef(RAW, RAW, function=function)).code)[""]


def _add(record: StateRecord, more: object, *, last: object = None) -> StateRecord:
    return replace(record, value=record.value + repr((more, last)).encode())


def _adding(value: object) -> Callable[[StateRecord], StateRecord]:
    return lambda record: _add(record, value)


def test_other_captured_values_are_another_function() -> None:
    values: list[object] = [1, 1.0, True, "1", b"1", (1,), [1], {1}, frozenset({1}), {1: 1}, {1: 2}, None, 1j, "\ud800"]
    given: list[Callable[..., StateRecord]] = [functools.partial(_add, more=value) for value in values]
    closures = [_adding(value) for value in values]
    assert len({_digest(each) for each in (*given, *closures)}) == 2 * len(values)
    assert _digest(given[0]) == _digest(functools.partial(_add, more=1))


def _named(function: Callable[[StateRecord], StateRecord]) -> Callable[[StateRecord], StateRecord]:
    @functools.wraps(function)
    def wrapped(record: StateRecord) -> StateRecord:
        return function(record)

    return wrapped


def test_what_a_decorator_wraps_counts() -> None:
    one, other = (_named(_adding(value)) for value in (1, 2))
    assert _digest(one) != _digest(other)
    assert _digest(one) == _digest(_named(_adding(1)))

    def spoken(codes: set[str]) -> Callable[[StateRecord], StateRecord]:
        function = _adding(1)
        function.codes = codes  # type: ignore[attr-defined]
        return function

    assert len({_digest(spoken(codes)) for codes in ({"a"}, {"b"})}) == 2


def test_functions_of_one_line_and_of_one_name_are_two() -> None:
    first, second = (lambda record: record), (lambda record: None)
    assert _digest(first) != _digest(second)

    def convert(record: StateRecord) -> StateRecord:
        return record

    former = convert

    def convert(record: StateRecord) -> StateRecord:  # type: ignore[no-redef]
        return replace(record, value=b"")

    assert _digest(former) != _digest(convert)


class _Adder:
    def convert(self, record: StateRecord) -> StateRecord:
        return record


def _made_by_exec() -> Callable[[StateRecord], StateRecord]:
    names: dict[str, Callable[[StateRecord], StateRecord]] = {}
    exec("def convert(record):\n    return record", names)
    return names["convert"]


def test_what_is_neither_of_a_file_nor_plain_is_known_to_its_own_process_alone() -> None:
    made: list[Callable[..., StateRecord]] = [
        _made_by_exec(),
        _Adder().convert,
        functools.cache(_adding(1)),
        functools.partial(_add, more=_Adder()),
    ]
    digests = [_digest(each) for each in made]
    assert digests == [_digest(each) for each in made]
    assert len({*digests}) == len(made)
    assert all(each.startswith(OWN_PROCESS) for each in digests)


def test_a_function_that_refers_to_itself_is_known() -> None:
    def made() -> Callable[[StateRecord], StateRecord]:
        def convert(record: StateRecord) -> StateRecord:
            return convert(replace(record, value=b"")) if record.value else record

        return convert

    assert _digest(made()) == _digest(made())


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("x = 1 # one", "x  =  (1)", True),
        ("def f(a): return a", "def f(a):\n\n    return a", True),
        ("x = 'a' 'b'", 'x = u"ab"', True),
        ("x = 1", "x = 1.0", False),
        ("x = 1", "x = True", False),
        ("x = None", "x = ...", False),
        ("x = 'a'", "x = b'a'", False),
        ("f(a, b)", "f((a, b))", False),
        ("x = {**a}", "x = {None: a}", False),
        ("def f(*, a, b=1): ...", "def f(*, a=1, b): ...", False),
        ("'one'", "'two'", False),
        ("import a.b", "from a import b", False),
        (f"x = {'+'.join('1' * 500)}", f"x = {'+'.join('1' * 501)}", False),
        (f"x = 0x{'f' * 9000}", f"x = 0x{'f' * 8999}e", False),
    ],
)
def test_what_a_source_does_counts_not_how_it_is_laid_out(one: str, other: str, is_same: bool) -> None:
    digests = {tree_digest(tree) for source in (one, other) if (tree := parsed(source.encode())) is not None}
    assert len(digests) == (1 if is_same else 2)


def test_the_digest_of_a_source_is_the_same_in_every_version_of_python() -> None:
    """Of what the grammar has had since 3.11; were it another one, migrations under way could not go on."""
    source = textwrap.dedent(
        '''
        """Text."""
        from __future__ import annotations
        import a.b as c
        from . import d
        @c
        async def f(x: int, /, y=1.5, *z, w: str = "\\n\\u00e9", **k) -> None:
            async with x as y, z: pass
            return f"{x!r:>{y}.{z}} {z=}" if x else b"\\x00" + rb"\\d"
        class G(c.H, metaclass=d):
            def __init__(self): super().__init__(); self.x: int = 1_000; del self.y
        try:
            match c:
                case {"a": [1, *_], **r} | G(x=-1j) if r: raise
        except* ValueError as e: ...
        g = lambda *_, q={1, 2, ...}: [i for i in q if (j := i) not in {None, True}] or (yield)
        '''
    )
    tree = parsed(source.encode())
    assert tree is not None
    assert tree_digest(tree)[:16] == "b18d75a43ed4489f"


def _migrated(folder: Path, name: str, suffix: str) -> set[bytes]:
    """The values that a function gives which imports a module beside the spec."""
    (folder / "conversion.py").write_text(
        "from dataclasses import replace\nfrom suffix import SUFFIX\n"
        "def convert(record):\n    return replace(record, value=SUFFIX)\n"
    )
    (folder / "suffix.py").write_text(f"SUFFIX = b'{suffix}'\n")
    (folder / "migration.toml").write_text(SPEC.format(budget="1h").replace('"sets"', f'"{name}"'))
    (new,) = run(load_spec(folder / "migration.toml")).new_stores
    return set(read_family(new).values())


def test_a_module_that_the_process_has_already_is_read_anew_once_it_changed(tmp_path: Path) -> None:
    make_store(tmp_path / "store", numbered(RECORDS))
    assert _migrated(tmp_path, "first", "1") == {b"1"}
    assert _migrated(tmp_path, "second", "2") == {b"2"}


def test_two_specs_of_one_process_import_modules_of_one_name_each_its_own(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        make_store(tmp_path / folder / "store", numbered(RECORDS))
        assert _migrated(tmp_path / folder, "one", folder) == {folder.encode()}
