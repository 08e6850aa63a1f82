"""Which files of a source a sweep writes, without a query."""

import gzip
import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from jobs.query_checkpoint import Directory, QueryCheckpoint
from migrate.errors import RefusedError


class _Session:
    sparkContext = None


@pytest.mark.parametrize("suffix", [".json.bz2", ".csv.ZST", ".lz4", ".Parquet"])
def test_a_directory_with_files_that_are_not_written_is_refused(suffix: str) -> None:
    session: Any = _Session()
    checkpoint = QueryCheckpoint(session, "checkpoint")
    vars(checkpoint)["sources"] = {"/input": Directory("/input", suffix, 0)}
    with pytest.raises(RefusedError, match=f"cannot be written as lines of text: {suffix}"):
        checkpoint.source("/input")


@pytest.mark.parametrize("suffix", [".json.gz", ".json.GZ"])
def test_gzip_is_written_whatever_the_case_of_its_suffix(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = _Session()
    written: dict[str, bytes] = {}
    write = "jobs.query_checkpoint.write_whole"
    monkeypatch.setattr(write, lambda _, __, name, content: written.update({name: content}))
    Directory("/input", suffix, 0).write(session, [b"{}"])
    ((name, content),) = written.items()
    assert (name.endswith(suffix), gzip.decompress(content)) == (True, b"{}\n")


def test_a_variable_of_several_operators_needs_the_number_of_one() -> None:
    session = MagicMock()
    of = json.dumps({"stateVariables": [{"stateName": "count"}]})
    rows = [{"operatorId": number, "operatorProperties": of} for number in (0, 1)]
    session.read.format.return_value.load.return_value.collect.return_value = rows
    checkpoint = QueryCheckpoint(session, "checkpoint")
    with pytest.raises(RefusedError, match="count is a state variable of the operators 0, 1"):
        checkpoint.operator("count")
    with pytest.raises(RefusedError, match="count is no state variable of operator 2, which has none"):
        checkpoint.operator("count", 2)
    assert checkpoint.operator("count", 1) == 1


@pytest.mark.parametrize("folder", ["my query", "query[1]"])
def test_a_path_that_spark_takes_for_another_one_is_refused(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    for path in (f"hdfs://host/{folder}/checkpoint", "checkpoint"):
        with pytest.raises(RefusedError, match="Spark cannot read state by a path with"):
            _ = QueryCheckpoint(MagicMock(), path).position
