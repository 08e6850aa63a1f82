from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.spark.job import SCRIPT, SPARK_SUBMIT, Job, completed, write_spec
from tests.spark.scene import Calm, run_calmly


@pytest.fixture
def submit(tmp_path: Path) -> Callable[..., Job]:
    """`submit(spec, master, *arguments)` from an empty directory; `options` are the job's."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run(spec: Path, master: str, *arguments: str, options: tuple[str, ...] = ()) -> Job:
        job = [SCRIPT, "--spec", str(spec), "--json", *options]
        return completed([SPARK_SUBMIT, "--master", master, *arguments, *job], elsewhere)

    return run


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., Path]:
    """As `write_spec`."""
    return partial(write_spec, tmp_path)


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Calm:
    return run_calmly(tmp_path_factory.mktemp("calm"))
