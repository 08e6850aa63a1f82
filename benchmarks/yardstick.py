"""The loops in C of `yardstick.c`: built where a compiler is, checked against the product, and run.

Elsewhere the bare loop stands in for them, by the ratios that were measured between the two.
"""

from __future__ import annotations

import json
import platform
import random
import shutil
import subprocess
import sysconfig
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from rocksdict import Options, Rdict

from benchmarks.rounds import ROOT, Sample, empty_folder, measure
from benchmarks.routes import PREFIX, RESULT
from benchmarks.stores import Store
from migrate.engine.portable import RecordDigest
from migrate.stores.batch import Batch

MODES = ("rewrite", "verify", "digest", "whole")
_LIBRARIES = {"x86_64": "librocksdbjni-linux64.so", "aarch64": "librocksdbjni-linux-aarch64.so"}
RECORDED = {
    "plain": {"rewrite": 1.2, "verify": 1.6, "digest": 2.9, "whole": 0.67},
    "kilo": {"rewrite": 1.2, "verify": 1.56, "digest": 2.9, "whole": 0.63},
    "mixed": {"rewrite": 1.23, "verify": 1.6, "digest": 2.9, "whole": 0.67},
}
"""By how much each mode is faster than the bare rocksdict loop that writes the same store, in CPU time."""


class Yardstick:
    """The program, or what stands in for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = _build(folder)

    @property
    def words(self) -> str:
        """What the engines are measured against."""
        if self._program is None:
            return "the bare rocksdict loop, times its recorded ratio to a loop in C (no compiler, or no PySpark here)"
        return "a loop in C over the library of PySpark's jar"

    def sample(self, mode: str, store: Store, target: Path | None = None) -> Sample:
        """One measurement in a process of its own; `target`: what `verify` compares the store with."""
        with empty_folder(self._folder) as folder:
            if self._program is not None:
                return _run(self._program, mode, store.path, folder, *([target] if target else []))
            bare = measure("route", {"name": "bare", "source": str(store.path), "folder": str(folder)})
            times = RECORDED[store.shape.name][mode]
            return replace(bare, wall=bare.wall / times, cpu=bare.cpu / times, facts={})


def _run(program: Path, mode: str, *arguments: Path) -> Sample:
    done = subprocess.run([program, mode, *arguments], check=True, capture_output=True, text=True)
    facts = json.loads(done.stdout)
    return Sample(facts.pop("wall"), facts.pop("cpu"), 0.0, facts)


@cache
def _build(folder: Path) -> Path | None:
    """The program, compiled against the library that PySpark's jar carries; None where one of the two is missing."""
    compiler, jar = shutil.which("cc"), _jar()
    name = _LIBRARIES.get(platform.machine())
    if compiler is None or jar is None or name is None or platform.system() != "Linux":
        return None
    built = folder / "yardstick"
    built.mkdir(parents=True, exist_ok=True)
    library, program = built / name, built / "yardstick"
    with zipfile.ZipFile(jar) as archive:
        library.write_bytes(archive.read(name))
    source = ROOT / "benchmarks" / "yardstick.c"
    subprocess.run([compiler, "-O3", "-march=native", "-Wall", source, library, "-o", program], check=True)
    _check(program, built)
    return program


def _jar() -> Path | None:
    packages = Path(sysconfig.get_path("purelib"))
    return next(packages.glob("pyspark/jars/rocksdbjni-*.jar"), None)


def _check(program: Path, scratch: Path) -> None:
    """Raises AssertionError where its digests are not those of python-xxhash, or it finds what is not so."""
    rng = random.Random(3)
    sizes = [*range(80), *(rng.randrange(9_000) for _ in range(200))]
    keys = [b"%05d" % number + b"k" * (number % 40) for number in range(len(sizes))]
    batch = Batch(keys, [rng.randbytes(size) for size in sizes])
    new = Batch(keys, [PREFIX + value for value in batch.values])
    with empty_folder(scratch) as folder:
        source, target = folder / "source", folder / RESULT
        for path, records in ((source, batch), (folder / "other", new)):
            database = Rdict(str(path), Options(raw_mode=True))
            for key, value in zip(records.keys, records.values, strict=True):
                database[key] = value
            database.close()
        wanted = [str(RecordDigest([each])) for each in (batch, new)]
        found = _run(program, "whole", source, folder).facts
        if [found[side]["digest"] for side in ("scanned", "written")] != wanted or not target.exists():
            raise AssertionError(f"the yardstick's digests {found} are not {wanted}")
        again = _run(program, "digest", folder / "other", folder).facts["scanned"]
        _run(program, "verify", source, folder, folder / "other")
        if again != found["written"]:
            raise AssertionError(f"the yardstick's digest {again} is not {wanted[1]}")
        try:
            _run(program, "verify", source, folder, source)
        except subprocess.CalledProcessError:
            return
    raise AssertionError("the yardstick takes one store for another")
