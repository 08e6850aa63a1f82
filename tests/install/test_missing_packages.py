"""What the base install can do, and the message where a package of an extra is missing: looked for, but not found."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import formats
import migrate
from migrate import MissingPackageError, load_spec
from migrate.cli import main
from migrate.errors import explain_system_error
from migrate.stores.rocksdb.sst import SstFile, SstFormatError
from tests.install.walk import SPEC, WORKS
from tests.support import Tables, numbered, write_sst

ROOT = Path(__file__).parents[2]
STATE = ROOT / "tests/fixtures/kafka-streams-4.0.1/orders-app"
BATCH, SPARK = ("arro3", "deltalake", "jinja2", "pyarrow"), ("delta", "py4j", "pyspark")
SERVE = ("starlette", "uvicorn")
OF_BATCH = {"abandon", "cutover", "doctor", "finalize", "plan", "rollback", "run", "snapshot", "verify"}


def walk(folder: Path, *blocked: str, python: str | Path = sys.executable) -> dict[str, str]:
    """The outcome of every public name and every command."""
    shutil.copytree(STATE, folder / "state/orders-app")
    program = [python, ROOT / "tests/install/walk.py", folder, *blocked]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def check_base(found: dict[str, str]) -> None:
    """Everything was tried, and either works or names the command that installs what is missing."""
    names = {f"{package.__name__}.{name}" for package in (formats, migrate) for name in package.__all__}
    verbs = {f"stateferry {name}" for name in main.commands}
    assert names | verbs < found.keys()
    failed = {name: what for name, what in found.items() if what != WORKS}
    assert {"migrate.migrate_store", "the job", *(f"stateferry {verb}" for verb in OF_BATCH)} <= failed.keys()
    assert "stateferry serve" in failed
    assert (
        not {f"stateferry {verb}" for verb in ("formats", "get", "init", "inspect", "report", "status")} & failed.keys()
    )
    kinds = {(kind, what) for name, text in failed.items() for kind, what in [text.split(": ", 1)]}
    assert {kind for kind, _ in kinds} == {"MissingPackageError", "6"}
    with_spark = {name for name, text in failed.items() if "stateferry[spark]" in text}
    on_spark = ("doctor", "import", "replay", "run", "sweep", "verify")
    assert with_spark == {"the job", *(f"stateferry {verb}" for verb in on_spark)}
    assert [what for _, what in kinds if "\n  next: pip install 'stateferry[" not in what] == []
    assert found["stateferry sweep"].endswith("\n  next: pip install 'stateferry[spark]'\n")
    assert [what for _, what in kinds if "Traceback" in what] == []


def test_the_base_works_without_the_extras(tmp_path: Path) -> None:
    check_base(walk(tmp_path, *BATCH, *SPARK, *SERVE))


@pytest.mark.parametrize("needing", ["run", "doctor"])
def test_without_pyspark_a_master_is_refused(needing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(STATE, tmp_path / "state/orders-app")
    (tmp_path / "migration.toml").write_text(SPEC)
    for name in [name for name in sys.modules if name.startswith("jobs.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingPackageError) as raised:
        getattr(migrate, needing)(load_spec(tmp_path / "migration.toml"), master="local[1]")
    assert raised.value.exit_code == 6
    assert (
        raised.value.hint == "pip install 'stateferry[spark]', or work without Spark: --no-spark, or for a run --jobs N"
    )


def test_what_stands_in_for_a_name_can_be_used_as_a_type() -> None:
    stand_in = vars(migrate)["_stand_in"]("DoctorReport", MissingPackageError("the package pyarrow is not installed"))
    assert not isinstance(3, stand_in | None)
    with pytest.raises(MissingPackageError, match="pyarrow"):
        stand_in(name="orders")


def test_a_missing_package_that_no_extra_has_stays_what_it_is() -> None:
    assert explain_system_error(ModuleNotFoundError("No module named 'jokes'", name="jokes")) is None
    assert explain_system_error(ModuleNotFoundError("pyarrow.flight", name="pyarrow.flight")) is None


def test_a_compressed_index_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads a sample then takes its keys from elsewhere."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write_sst(tmp_path / "a.sst", numbered(3000, value_size=60), tables=Tables(compression="snappy"))
    with SstFile(path) as sst, pytest.raises(SstFormatError, match="pyarrow is not installed"):
        assert sst.properties().compression == "Snappy"
        sst.index_samples(3)


@pytest.mark.parametrize(
    ("missing", "why"),
    [("numba", "numba is not installed: pip install 'stateferry[batch]'"), ("pyspark", "there is no PySpark here")],
)
def test_without_what_the_native_engine_needs_the_portable_one_works(missing: str, why: str, tmp_path: Path) -> None:
    shutil.copytree(STATE, tmp_path / "state/orders-app")
    (tmp_path / "migration.toml").write_text(SPEC)
    code = f"""
import sys
sys.modules[{missing!r}] = None
from migrate import load_spec, run
from migrate.engine import engines
engines.LITTLE_BYTES = 0
made = run(load_spec("migration.toml"))
print(made.engine, made.verification.ok)
"""
    variables = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=variables)
    assert done.stdout.startswith(f"portable (native declines: {why}"), done.stderr
    assert done.stdout.endswith(" True\n")
