"""What a function is made of: its modules, what they import, the data that they read. None of it may change midway."""

import json
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from migrate.errors import ExitCode
from migrate.model.ledger_row import Step
from tests.bad_input.support import Migration, at_event, check_clear, raw_records
from tests.shared.commands import Commands, CommandServer
from tests.support import read_ledger

MAPPING = "CODES = {b'k': b'K'}\n"
BY_STATEMENT = """
from dataclasses import replace
from mapping import CODES
def convert(record):
    return replace(record, value=record.value + CODES[record.key[:1]])
"""
IN_THE_FUNCTION = """
from dataclasses import replace
def convert(record):
    import mapping
    return replace(record, value=record.value + mapping.CODES[record.key[:1]])
"""
OF_A_PACKAGE = """
from dataclasses import replace
from tables import codes
def convert(record):
    return replace(record, value=record.value + codes.CODES[record.key[:1]])
"""
BY_NAME = """
from dataclasses import replace
from importlib import import_module
def convert(record):
    {condition}
    return replace(record, value=record.value + import_module("map" + "ping").CODES[record.key[:1]])
"""
OF_A_FILE = """
from dataclasses import replace
from collections.abc import Iterator
from pathlib import Path
CODES = Path(__file__).with_name("codes.csv").read_bytes().strip()
def convert(record):
    return replace(record, value=record.value + CODES)
"""
CONVERTED = {key: value + b"K" for key, value in raw_records().items()}


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """Processes of their own: a module is loaded once in a process."""
    with CommandServer() as server:
        yield server


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text), encoding="utf-8")


def begin(raw: Migration) -> None:
    """Its plan is stored, and no chunk is done."""
    raw.set("run", time_budget="0s")
    raw.fails(ExitCode.INTERRUPTED, "the time budget is used up")
    raw.set("run", time_budget="1h")


def receipts(raw: Migration) -> list[dict[str, Any]]:
    return [row.facts for row in read_ledger(raw.home) if row.step is Step.CHUNK]


@pytest.mark.parametrize("code", [BY_STATEMENT, IN_THE_FUNCTION])
def test_an_imported_module_that_changes_between_two_runs_is_named(raw: Migration, code: str) -> None:
    write(raw.folder / "mapping.py", MAPPING)
    raw.module(code)
    begin(raw)
    write(raw.folder / "mapping.py", "CODES = {b'k': b'X'}\n")
    raw.refused("changed since: function: mapping.py", "stateferry abandon SPEC")
    write(raw.folder / "mapping.py", f"# only said in other words\n\n{MAPPING}")
    raw.completes({".": CONVERTED})
    assert {frozenset(receipt["code"]) for receipt in receipts(raw)} == {frozenset({"conversion.py", "mapping.py"})}


def test_a_module_far_away_counts_and_one_that_nobody_imports_does_not(raw: Migration) -> None:
    write(raw.folder / "tables/__init__.py", "")
    write(raw.folder / "tables/codes.py", "from .inner import CODES\n")
    write(
        raw.folder / "tables/inner.py",
        "def load():\n    from far.away.last import CODES\n    return CODES\nCODES = load()\n",
    )
    write(raw.folder / "far/away/last.py", MAPPING)
    raw.module(OF_A_PACKAGE)
    begin(raw)
    write(raw.folder / "far/away/last.py", "CODES = {b'k': b'X'}\n")
    raw.refused("changed since: function: far/away/last.py")
    write(raw.folder / "far/away/last.py", MAPPING)
    write(raw.folder / "tables/other.py", "this is no Python")
    raw.completes({".": CONVERTED})
    named = {path for receipt in receipts(raw) for path in receipt["code"]}
    tables = {f"tables/{name}.py" for name in ("__init__", "codes", "inner")}
    assert named == {"conversion.py", "far/away/last.py", *tables}


@pytest.mark.parametrize("name", ["tables.zip", "tables-1.0-py3-none-any.whl"])
def test_a_module_in_an_archive_counts_and_when_it_was_packed_does_not(raw: Migration, name: str) -> None:
    def pack(code: str, year: int) -> None:
        with zipfile.ZipFile(raw.folder / "lib" / name, "w") as archive:
            archive.writestr(zipfile.ZipInfo("tables/__init__.py", (year, 1, 1, 0, 0, 0)), "")
            archive.writestr(zipfile.ZipInfo("tables/codes.py", (year, 1, 1, 0, 0, 0)), code)

    (raw.folder / "lib").mkdir()
    raw.set("conversion", py_files=[f"lib/{name}"])
    pack(MAPPING, 2001)
    raw.module(OF_A_PACKAGE)
    begin(raw)
    pack("CODES = {b'k': b'X'}\n", 2001)
    raw.refused(f"changed since: function: {name}/tables/codes.py")
    pack(MAPPING, 2002)
    raw.completes({".": CONVERTED})
    assert f"{name}/tables/codes.py" in receipts(raw)[0]["code"]


def test_a_listed_file_that_changes_between_two_runs_is_named(raw: Migration) -> None:
    write(raw.folder / "codes.csv", "K\n")
    raw.module(OF_A_FILE)
    raw.set("conversion", files=["codes.csv"])
    begin(raw)
    write(raw.folder / "codes.csv", "X\n")
    raw.refused("changed since: function: codes.csv")
    write(raw.folder / "codes.csv", "K\n")
    raw.completes({".": CONVERTED})
    assert "codes.csv" in receipts(raw)[0]["code"]


@pytest.mark.parametrize("changed", ["mapping.py", "codes.csv"])
def test_what_changes_while_the_run_goes_on_ends_it(raw: Migration, changed: str) -> None:
    write(raw.folder / "mapping.py", MAPPING)
    write(raw.folder / "codes.csv", "K\n")
    raw.module(f"import mapping\n{OF_A_FILE}")
    raw.set("conversion", files=["codes.csv"])
    change = f"open({str(raw.folder / changed)!r}, 'a').write('X = 1\\n')"
    outcome = raw.run(before=at_event("chunk.committed", change))
    check_clear(outcome, ExitCode.REFUSED, changed, "changed during the run", "restore it")
    assert not raw.target.exists()


def test_a_module_imported_by_a_made_up_name_must_be_listed(raw: Migration) -> None:
    write(raw.folder / "mapping.py", MAPPING)
    raw.module(BY_NAME.format(condition=""))
    raw.refused("the function loaded the module mapping.py", '[conversion] files = ["mapping.py"]')
    verdict = json.loads(raw.run("--json", verb="plan").out)["verdict"]
    assert (verdict["exit_code"], "mapping.py" in verdict["sentence"]) == (ExitCode.REFUSED, True)
    raw.set("conversion", files=["mapping.py"])
    begin(raw)
    write(raw.folder / "mapping.py", "CODES = {b'k': b'X'}\n")
    raw.refused("changed since: function: mapping.py")
    write(raw.folder / "mapping.py", MAPPING)
    raw.completes({".": CONVERTED})


def test_a_module_that_only_one_record_asks_for_is_found_by_its_chunk(raw: Migration) -> None:
    """The sample does not see it."""
    write(raw.folder / "mapping.py", MAPPING)
    raw.module(BY_NAME.format(condition="if record.key != b'key-00001234': return record"))
    outcome = raw.fails(ExitCode.REFUSED, "the function loaded the module mapping.py")
    assert raw.is_planned
    assert "Traceback" not in outcome.err
