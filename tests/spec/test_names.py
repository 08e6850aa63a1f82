"""Files of the user's with names of our packages, of packages that tasks need, and of Python's own modules."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from migrate import SpecError, doctor, load_spec, plan, run
from migrate.model import packages
from migrate.spec.conversion import conversion_ref
from migrate.spec.user_function import files_for_executors, name_warnings
from tests.support import make_store, numbered, read_family, shadow_our_packages

ROOT = Path(__file__).parents[2]
SPEC = """
name = "shadows"
work_dir = "work"
[source]
format = "rocksdb.raw"
path = "store"
[target]
format = "rocksdb.raw"
path = "new"
[conversion]
function = "{function}"
py_files = {py_files}
"""
UPPER = """
from dataclasses import replace
{statement}
def convert(record):
    return replace(record, value=record.value.upper())
"""


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own: another test may have claimed `jobs`."""
    monkeypatch.setattr(packages, "_claimed", {"formats", "migrate"})


def write(folder: Path, statement: str = "", *, function: str = "conv:convert", py_files: tuple[str, ...] = ()) -> Path:
    make_store(folder / "store", numbered(20))
    (folder / "conv.py").write_text(UPPER.format(statement=statement))
    (folder / "migration.toml").write_text(SPEC.format(function=function, py_files=list(py_files)))
    return folder / "migration.toml"


def test_our_packages_are_imported_whatever_lies_beside_the_spec_and_in_py_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("formats/__init__.py", "raise RuntimeError\n")
    statement = "import formats, migrate\nassert formats.StateRecord and migrate.run"
    spec = load_spec(write(tmp_path, statement, py_files=("lib.zip",)))
    shadow_our_packages(tmp_path)
    report = run(spec)
    assert report.state == "published"
    assert read_family(tmp_path / "new") == {key: value.upper() for key, value in numbered(20).items()}
    assert [warning.partition(" is not what")[0] for warning in report.warnings] == [
        f"{tmp_path}/formats.py",
        f"formats in {tmp_path}/lib.zip",
        f"{tmp_path}/migrate.py",
    ]
    assert "`import migrate` gets the package of Stateferry" in report.warnings[-1]
    assert {path for path, _ in conversion_ref(spec).code} == {"conv.py", "lib.zip/formats/__init__.py"}


def test_plan_and_doctor_say_so_before_the_run(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path))
    shadow_our_packages(tmp_path)
    for checks in (plan(spec).checks, doctor(spec).checks):
        (check,) = [each for each in checks if each.name == "function.names"]
        assert check.outcome == "warning"
        assert str(tmp_path / "formats.py") in check.detail
        assert "rename" in check.fix


@pytest.mark.parametrize("name", ["formats", "migrate"])
def test_the_function_itself_cannot_have_one_of_our_names(name: str, tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, function=f"{name}:convert"))
    shadow_our_packages(tmp_path)
    with pytest.raises(SpecError, match=f"'{name}' is the name of a package of Stateferry") as raised:
        run(spec)
    assert f"rename {tmp_path / name}" in raised.value.hint


def test_a_function_that_means_its_own_file_is_told_which_one_it_gets(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, "from formats import parse_order"))
    shadow_our_packages(tmp_path)
    with pytest.raises(SpecError, match="cannot import name 'parse_order'") as raised:
        run(spec)
    assert raised.value.hint == "'formats' is a package of Stateferry: if a module of yours is meant, rename it"


@pytest.mark.parametrize("name", ["queue", "rich"])
def test_a_module_with_the_name_of_an_installed_one_is_warned_of_once_it_is_imported(name: str, tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path))
    (tmp_path / f"{name}.py").write_text("")
    assert name_warnings(conversion_ref(spec)) == []
    other = load_spec(write(tmp_path / "other", f"def unused():\n    import {name}"))
    (tmp_path / f"other/{name}.py").write_text("")
    (warning,) = name_warnings(conversion_ref(other))
    assert warning.startswith(f"{tmp_path / 'other' / name}.py has the name of a module that is installed with Python")


def test_what_tasks_need_is_not_replaced_on_executors(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, "def unused():\n    import numpy"))
    assert files_for_executors(conversion_ref(spec)) == [tmp_path / "conv.py"]
    (tmp_path / "numpy.py").write_text("")
    with pytest.raises(SpecError, match=r"numpy\.py would take the place of the package numpy"):
        files_for_executors(conversion_ref(spec))


def python(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_command_finds_our_packages_behind_those_of_the_working_directory_and_of_pythonpath(tmp_path: Path) -> None:
    shadow_our_packages(tmp_path, "formats", "jobs")  # a `migrate` there leaves none of our code to run
    program = (
        "from migrate.batch.chunk.executor import spark\nspark('local[1]')\nimport jobs.java, formats\n"
        "from migrate.cli import main\nmain(['formats', '--json'])"
    )
    done = python(tmp_path, sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


def test_a_program_that_imported_its_own_module_first_is_told_to_rename_it(tmp_path: Path) -> None:
    (tmp_path / "formats.py").write_text("")
    done = python(tmp_path, sys.executable, "-c", "import formats, migrate")
    assert (
        f"ImportError: {tmp_path}/formats.py was imported as 'formats', which is the name of a package of Stateferry: "
        "rename it"
    ) in done.stderr


JOBS_OF_THE_USER = """
import sys
from migrate import DualReadStore, load_spec, run
import jobs
spec = load_spec(sys.argv[1])
report = run(spec)
print(jobs.NAME, report.state, *report.warnings, sep="\\n")
try:
    run(spec, master="local[1]")
except ImportError as error:
    print(error)
"""


def test_a_program_and_its_function_keep_their_own_jobs_until_spark_is_needed(tmp_path: Path) -> None:
    file = write(tmp_path, "from jobs.loudness import raised")
    (tmp_path / "conv.py").write_text("from jobs.loudness import convert\n")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/__init__.py").write_text("NAME = 'jobs of the user'\n")
    (tmp_path / "jobs/loudness.py").write_text(UPPER.format(statement=""))
    done = python(tmp_path, sys.executable, "-c", JOBS_OF_THE_USER, str(file))
    name, state, warning, refusal = done.stdout.splitlines()
    assert warning.startswith(f"{tmp_path}/jobs is not what the function imports on Spark: `import jobs` gets the ")
    assert (name, state) == ("jobs of the user", "published")
    assert refusal.startswith(f"{tmp_path}/jobs was imported as 'jobs', which is the name of a package of Stateferry")
    assert read_family(tmp_path / "new") == {key: value.upper() for key, value in numbered(20).items()}
    known = json.loads((tmp_path / "work/shadows/plan-0001.json").read_text())["identity"]
    assert {"function: jobs/__init__.py", "function: jobs/loudness.py"} < known.keys()
