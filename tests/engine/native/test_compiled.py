"""The compiled loop, kept on the disk: by a process that compiled it, for others."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOOP = "import sys; from migrate.engine.native.passes import compiled; compiled(); print('numba' in sys.modules)"


def _loads_numba(cache: Path, path: Path = ROOT) -> bool:
    """Have a process of its own load the loop. Returns whether it compiled it."""
    environment = {**os.environ, "STATEFERRY_CACHE": str(cache), "PYTHONPATH": str(path)}
    done = subprocess.run(
        [sys.executable, "-c", LOOP], env=environment, cwd=cache, capture_output=True, text=True, check=True
    )
    return done.stdout.strip() == "True"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory with the loop."""
    directory = tmp_path_factory.mktemp("cache")
    directory.chmod(0o700)
    assert _loads_numba(directory)
    return directory


def test_a_later_process_needs_no_numba(cache: Path) -> None:
    assert not _loads_numba(cache)


def test_it_loads_from_a_zip_file_as_spark_sends_it(cache: Path, tmp_path: Path) -> None:
    archive = tmp_path / "sent.zip"
    with zipfile.ZipFile(archive, "w") as sent:
        for top in ("migrate", "formats"):
            for file in (ROOT / top).rglob("*.py"):
                sent.write(file, file.relative_to(ROOT))
    assert not _loads_numba(cache, archive)


def test_a_damaged_file_is_made_again(cache: Path) -> None:
    (file,) = cache.glob("loop-*.o")
    code = bytearray(file.read_bytes())
    code[len(code) // 2] ^= 1
    file.write_bytes(code)
    assert _loads_numba(cache)
    assert not _loads_numba(cache)
