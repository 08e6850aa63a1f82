"""What is compiled once on a machine: by whoever comes first; where that fails, the portable engine works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import make_store

REPOSITORY = Path(__file__).parents[3]
FAILS = "native declines: its loop cannot be compiled: ImportError: Numba needs an older NumPy"
PREPARE = """
from migrate.engine.engines import prepare
assert prepare("native")
"""
REWRITE = """
import sys
from pathlib import Path
from formats import Conversion, get_format
from migrate.engine.chunk_source import Inputs
from migrate.engine.engine import FamilyWork, Hooks, rewrite
from migrate.engine.engines import engines_for
from migrate.engine.left_out import LeftOut
from migrate.engine.rejects import RejectsByReason
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.stores.rocksdb.writing import TableOptions

conversion = Conversion(get_format("kafka-streams.key-value"), get_format("kafka-streams.timestamped-key-value"))
work = FamilyWork(Inputs((sys.argv[1],)), FamilyMapping(source="default", target="default"), KeyRange(), conversion)
hooks = Hooks(lambda: None, RejectsByReason(), LeftOut())
passed = rewrite(engines_for("auto"), work, hooks, Path(sys.argv[1] + ".sst"), TableOptions())
print(passed.engine, passed.written.records, 'numba' in sys.modules)
"""
RUN = """
import sys
from pathlib import Path
from migrate import run
from migrate.engine import engines
from tests.support import kafka_spec
from tests.shared.refunds import make_application

engines.LITTLE_BYTES = 0
folder = Path(sys.argv[1])
spec = kafka_spec(folder, make_application(folder), source={"stores": ["refunds"]}, run={"engine": sys.argv[2]})
print(run(spec).engine)
"""


def _python(code: str, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """In a process that has the modules of a folder, and nothing compiled but what is kept there."""
    variables = os.environ | {"STATEFERRY_CACHE": str(folder / "cache"), "PYTHONPATH": f"{folder}:{REPOSITORY}"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A numba that is installed, and cannot be imported."""
    (tmp_path / "broken/numba").mkdir(parents=True)
    (tmp_path / "broken/numba/__init__.py").write_text("raise ImportError('Numba needs an older NumPy')")
    return tmp_path / "broken"


def test_who_follows_only_loads_what_was_compiled(tmp_path: Path) -> None:
    prepared = _python(PREPARE, folder=tmp_path)
    assert prepared.returncode == 0, prepared.stderr
    followed = _python(REWRITE, make_store(tmp_path / "old", {b"a": b"1"}), folder=tmp_path)
    assert followed.stdout.split() == ["native", "1", "False"], followed.stderr


def test_a_worker_that_cannot_compile_it_leaves_its_work_to_the_portable_engine(tmp_path: Path, broken: Path) -> None:
    done = _python(REWRITE, make_store(tmp_path / "old", {b"a": b"1"}), folder=broken)
    assert done.stdout.split()[:2] == ["portable", "1"], done.stderr
    assert FAILS in done.stderr


def test_a_run_that_cannot_compile_it_says_so(tmp_path: Path, broken: Path) -> None:
    done = _python(RUN, tmp_path, "auto", folder=broken)
    assert done.stdout.startswith(f"portable ({FAILS}"), done.stderr


def test_a_run_that_must_be_native_and_cannot_compile_it_is_refused(tmp_path: Path, broken: Path) -> None:
    done = _python(RUN, tmp_path, "native", folder=broken)
    assert f'RefusedError: [run] engine = "native" cannot be: {FAILS}' in done.stderr
    assert not (tmp_path / "new").exists()
