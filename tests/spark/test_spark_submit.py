"""The batch job on Spark: every kind of master, uninstalled, from another directory, with functions and failures."""

import json
import re
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from migrate import load_spec, run
from migrate.model.ledger_row import Step
from migrate.survey.inspection import inspect
from tests.spark.job import BASE_PYTHON, BOTH, SCRIPT, SPARK_SUBMIT, Job, bare_python, completed, write_spec
from tests.support import read_ledger, shadow_our_packages


def digests(folder: Path) -> dict[tuple[str, str], str | None]:
    """Record digests by RocksDB directory and column family."""
    found = inspect(folder, digest=True).databases
    return {(database.path, family.name): family.digest for database in found for family in database.families}


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str | None]:
    """What the same migration gives without Spark."""
    folder = tmp_path_factory.mktemp("in-process")
    run(load_spec(write_spec(folder)))
    return digests(folder / "new/orders-app")


def test_the_job_gives_the_same_records_as_without_spark(
    spec: Callable[..., Path], submit: Callable[..., Job], in_process: dict[tuple[str, str], str | None]
) -> None:
    file = spec()
    job = submit(file, "local-cluster[2,1,1024]")
    assert job.exit_code == 0, job.errors
    assert job.report["verification"]["mode"] == "full"
    assert job.report["totals"]["records_out"] == 6600
    assert job.report["state"] == "published"
    assert digests(file.parent / "new/orders-app") == in_process


def test_a_function_beside_the_spec_reaches_the_executors_and_nothing_there_is_taken_for_our_packages(
    spec: Callable[..., Path], submit: Callable[..., Job], tmp_path: Path
) -> None:
    shadow_our_packages(tmp_path)
    shadow_our_packages(tmp_path / "elsewhere")  # the working directory
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("migrate/__init__.py", "raise RuntimeError")
        archive.writestr("jobs.py", "raise RuntimeError")
    (tmp_path / "shouting.py").write_text(
        "from dataclasses import replace\n"
        "from pathlib import Path\n"
        "DROPPED = Path(__file__).with_name('dropped.txt').read_bytes()\n"
        "def convert(record):\n"
        "    import formats, jobs.java, loudness, migrate.errors\n"
        "    return None if record.key.endswith(DROPPED) else replace(record, value=loudness.raised(record.value))\n"
    )
    (tmp_path / "loudness.py").write_text("def raised(value):\n    return value.upper()\n")
    (tmp_path / "dropped.txt").write_text("5")
    function = (
        'function = "shouting:convert"\nallow = ["changelog", "drop", "unclean-source"]\nfiles = ["dropped.txt"]\n'
    )
    function += 'py_files = ["lib.zip", "formats.py"]'
    file = spec(f"[conversion]\n{function}")
    job = submit(file, "local-cluster[2,1,1024]")
    assert job.exit_code == 0, job.errors
    totals = job.report["totals"]
    assert 0 < totals["dropped"] == 6600 - totals["records_out"]
    assert "the changelog no longer matches" in job.report["changelog"]
    details = [row.detail for row in read_ledger(tmp_path / "work/orders") if row.step is Step.CHUNK]
    loaded = {path for detail in details for path in json.loads(detail)["code"]}  # by an empty chunk, not all of them
    assert loaded == {"shouting.py", "loudness.py", "dropped.txt"}
    names = [warning.partition(" is not what")[0] for warning in job.report["warnings"]]
    beside = [f"{tmp_path / name}" for name in ("formats.py", "migrate.py", "jobs")]
    assert names == [beside[0], beside[1], f"migrate in {tmp_path}/lib.zip", beside[2], f"jobs in {tmp_path}/lib.zip"]


def test_the_output_of_the_driver_tells_the_story(
    spec: Callable[..., Path], in_process: dict[tuple[str, str], str | None], tmp_path: Path
) -> None:
    """A worker dies once; standard error is no terminal; the records are the same as without Spark."""
    (tmp_path / "mortal.py").write_text(
        "import os\n"
        "from pathlib import Path\n"
        f"FOLDER = Path({str(tmp_path)!r})\n"
        "def convert(record):\n"
        "    if (FOLDER / 'work/orders/chunks').is_dir() and not (FOLDER / 'died').exists():\n"
        "        (FOLDER / 'died').touch()\n"
        "        os._exit(9)\n"
        "    return record\n"
    )
    file = spec('[conversion]\nfunction = "mortal:convert"\nallow = ["changelog", "unclean-source"]')
    done = completed([SPARK_SUBMIT, "--master", "local[2]", SCRIPT, "--spec", file], tmp_path)
    assert done.exit_code == 0, done.errors
    assert digests(file.parent / "new/orders-app") == in_process
    lines = [line.partition(" ")[2] for line in done.output.splitlines()]
    (retry,) = [line for line in lines if "attempt 1 of 3 failed" in line]
    assert retry.startswith("warning: orders: ")
    for line in ("orders: snapshot taken", f"orders: published {tmp_path / 'new/orders-app'}"):
        assert lines.count(line) == 1
    assert any(line.startswith("orders: rewrite 100%: ") for line in lines)
    errors = done.errors.removeprefix(done.output)
    log = [line for line in errors.splitlines() if re.match(r"\d\d/\d\d/\d\d ", line)]
    assert any(" ERROR " in line for line in log)
    assert [line for line in log if " ERROR " not in line and " WARN Utils: " not in line] == []
    assert "Setting" not in errors


def test_refusals_come_before_the_session_starts(spec: Callable[..., Path], submit: Callable[..., Job]) -> None:
    file = spec()
    file.write_text(file.read_text().replace('"orders", "refunds"', '"oders"'))
    job = submit(file, "local[2]")
    assert job.exit_code == 6
    assert "did you mean 'orders'?" in job.message
    assert "Running Spark" not in job.errors


def test_executors_without_our_dependencies_end_in_a_sentence(spec: Callable[..., Path], tmp_path: Path) -> None:
    python = str(bare_python(tmp_path))
    command = [
        *(SPARK_SUBMIT, "--master", "local[1]"),
        *("--conf", f"spark.pyspark.python={python}", "--conf", f"spark.pyspark.driver.python={BASE_PYTHON}"),
        *(SCRIPT, "--spec", str(spec())),
    ]
    done = completed(command, tmp_path, PYSPARK_PYTHON=python)
    assert done.exit_code == 6, done.errors
    assert "rocksdict cannot be imported on" in done.output


@pytest.mark.skipif(find_spec("delta") is None, reason="delta-spark is not installed: make test-delta")
def test_the_ledger_and_dead_letters_are_delta_tables_that_spark_reads(
    spec: Callable[..., Path], submit: Callable[..., Job], tmp_path: Path
) -> None:
    (tmp_path / "picky.py").write_text(
        "def convert(record):\n"
        "    if record.key.endswith(b'77'):\n"
        "        raise ValueError('unlucky')\n"
        "    return record\n"
    )
    file = spec(
        'on_reject = "dead-letter"\n[conversion]\nfunction = "picky:convert"\nallow = ["changelog", "unclean-source"]'
    )
    job = submit(file, "local[2]", options=("--accept-rejects", "1000000"))
    assert job.exit_code == 0, job.errors
    script = tmp_path / "read.py"
    script.write_text(
        "import json, sys\n"
        "from delta import configure_spark_with_delta_pip\n"
        "from pyspark.sql import SparkSession\n"
        "builder = SparkSession.builder.master('local[2]').config('spark.ui.enabled', 'false')\n"
        "builder = builder.config('spark.sql.shuffle.partitions', '2')\n"
        "builder = builder.config('spark.sql.extensions', 'io.delta.sql.DeltaSparkSessionExtension')\n"
        "name = 'spark.sql.catalog.spark_catalog'\n"
        "builder = builder.config(name, 'org.apache.spark.sql.delta.catalog.DeltaCatalog')\n"
        "spark = configure_spark_with_delta_pip(builder).getOrCreate()\n"
        "home = sys.argv[1]\n"
        "ledger = spark.read.format('delta').load(home + '/ledger')\n"
        "steps = {row['step']: row['count'] for row in ledger.groupBy('step').count().collect()}\n"
        "rejects = [row.asDict() for row in spark.read.format('delta').load(home + '/dead-letters').collect()]\n"
        "first = sorted(rejects, key=lambda row: bytes(row['key']))[0]\n"
        "answer = {'steps': steps, 'rejects': len(rejects), 'reason': first['reason']}\n"
        "print('ANSWER', json.dumps(answer))\n"
    )
    command = [BASE_PYTHON, str(script), str(file.parent / "work/orders")]
    done = completed(command, tmp_path, PYSPARK_SUBMIT_ARGS="pyspark-shell")
    assert done.exit_code == 0, done.errors
    (answer,) = [line for line in done.output.splitlines() if line.startswith("ANSWER")]
    totals = job.report["totals"]
    assert f'"chunk": {totals["chunks"]}' in answer
    assert f'"rejects": {totals["rejected"]}' in answer
    assert totals["rejected"] > 0
    assert "unlucky" in answer


def test_python_runs_on_spark_when_a_master_is_named(spec: Callable[..., Path]) -> None:
    file = spec()
    shadow_our_packages(file.parent, "formats", "jobs")  # the working directory, also of the workers
    code = (
        "import sys\nfrom migrate import load_spec, run\nprint(run(load_spec(sys.argv[1]), master='local[2]').state)\n"
    )
    done = completed([BASE_PYTHON, "-c", code, str(file)], file.parent, PYTHONPATH=BOTH)
    assert done.exit_code == 0, done.errors
    assert done.output.strip() == "published"


def test_a_session_of_the_user_s_takes_several_runs_and_leaves_nothing(spec: Callable[..., Path]) -> None:
    file = spec()
    code = (
        "import os, sys\nfrom migrate import load_spec, run, verify\nfrom pyspark import SparkFiles\n"
        "from pyspark.sql import SparkSession\nmaster = 'local-cluster[1,1,1024]'\n"
        "session = SparkSession.builder.master(master).config('spark.ui.enabled', 'false').getOrCreate()\n"
        "spec, folder = load_spec(sys.argv[1]), SparkFiles.getRootDirectory()\n"
        "print(run(spec, master=master).state, verify(spec, master=master).verification.mode)\n"
        "session.stop()\nprint(os.path.exists(folder))\n"
    )
    done = completed([BASE_PYTHON, "-c", code, str(file)], file.parent, PYTHONPATH=BOTH)
    assert done.exit_code == 0, done.errors
    assert done.output.splitlines()[-2:] == ["published full", "False"]
