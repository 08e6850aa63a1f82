"""Maven, for the Java programs of the live tests: a cache of its own, and no network where it has all."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_TIMEOUT_SECONDS = 900
JVM_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx384m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
"""For programs that start often and do little."""


class ProgramError(Exception):
    """A program of the tests could not be built, or failed itself (a difference it finds is a verdict)."""


def cache_directory() -> Path:
    """The cache of built programs and of Maven's downloads, which tells git to ignore it."""
    cache = Path(os.environ.get("STATEFERRY_TEST_CACHE") or _ROOT / ".cache").resolve()
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n", encoding="utf-8")
    return cache


@contextmanager
def cache_locked(name: str) -> Iterator[Path]:
    """The cache, while no other process builds what has this name."""
    cache = cache_directory()
    with (cache / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield cache


def run_maven(pom: Path, goals: Sequence[str], properties: Mapping[str, str]) -> None:
    """Raises ProgramError."""
    if shutil.which("mvn") is None:
        raise ProgramError("this needs Maven (mvn) and a JDK, 17 or newer, on the PATH, and once the network")
    repository = cache_directory() / "maven"
    command = ["mvn", "--quiet", "--batch-mode", "--file", str(pom), f"-Dmaven.repo.local={repository}"]
    command += [f"-D{name}={value}" for name, value in properties.items()] + list(goals)
    # What Maven has fetched before is enough without a network; ask for it only if it is not.
    attempts = [[*command, "--offline"], command] if repository.exists() else [command]
    for attempt in attempts:
        result = subprocess.run(attempt, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
        if result.returncode == 0:
            return
    raise ProgramError(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")


def built_classpath(name: str, folder: Path, version: str, properties: Mapping[str, str]) -> str:
    """Build the Java program in the folder, a version of it, unless built already; return its classpath.

    Built beside the final directory and renamed, so that a build cut short is never taken for one. Raises ProgramError.
    """
    with cache_locked(name) as cache:
        built = cache / name / f"{version}-{_sources_digest(folder)}"
        if not built.exists():
            built.parent.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
                target = Path(scratch) / "target"
                wanted = {**properties, "build.dir": str(target), "mdep.outputFile": str(target / "classpath")}
                run_maven(folder / "pom.xml", ["compile", "dependency:build-classpath"], wanted)
                target.rename(built)
    return f"{built / 'classes'}{os.pathsep}{(built / 'classpath').read_text(encoding='utf-8')}"


def _sources_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for source in [folder / "pom.xml", *sorted(folder.glob("src/main/java/**/*.java"))]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
