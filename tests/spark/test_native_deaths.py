"""Python workers that die in native code: Spark gives their chunks to others, and the portable engine does them."""

import os
from pathlib import Path

from migrate import load_spec
from migrate.batch.status.history import report
from tests.shared.second_engine import in_further_processes
from tests.spark.job import CLI, ROOT, SITE_PACKAGES, completed
from tests.support import make_store, numbered, read_family, spec_file

RECORDS = numbered(10_000)


def test_chunks_whose_workers_died_in_native_code_are_the_portable_engines(tmp_path: Path) -> None:
    """Once while a bundle of chunks is converted, and once while ranges are compared."""
    make_store(tmp_path / "old", RECORDS)
    file = spec_file(tmp_path / "migration.toml", run={"chunk_size": "1 KiB"})
    marks = tmp_path / "marks"
    site = in_further_processes(tmp_path / "site", marks, ("rewrite", "compare"))
    path = os.pathsep.join([site, str(ROOT), SITE_PACKAGES])
    done = completed([*CLI, "run", str(file), "--master", "local[2]", "--json"], tmp_path, PYTHONPATH=path)
    assert done.exit_code == 0, done.errors
    assert (marks / "rewrite").exists() and (marks / "compare").exists()
    assert "more, which now run one by one" in done.errors
    words = " ".join(done.report["warnings"])
    assert "ran on portable: a process died, or was killed, while native code converted" in words
    assert "ran on portable: a process died, or was killed, while native code compared" in words
    chunks = report(load_spec(file)).chunks
    assert {each.engine for each in chunks if each.is_after_death} == {"portable"}
    assert {each.engine for each in chunks if not each.is_after_death} == {"second"}
    assert read_family(tmp_path / "new") == RECORDS
    assert not list((tmp_path / "work").rglob("*.breadcrumb"))
