"""The archive of Spark's loaded classes, with which a JVM starts in half the time: made once, in the background.

It is in the user's cache folder, for one Java and one Spark. A run that finds none leaves a process behind that starts
Spark once more, with the lowest priority, and archives what it has loaded. The JVM checks that an archive is its own,
and we that it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import subprocess
import sys
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobs.java import Java, cache_folder
from migrate.model.packages import PLACE
from migrate.stores.files import fsync_file

_SILENTLY = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
_MAKE = "import sys; sys.path[:] = {path!r}; from jobs.class_archive import make; make(*{names!r})"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive for one Java and one Spark, whether it is there or not."""

    folder: Path
    place: str
    """A digest of the paths of Java, Spark and Spark's configuration."""
    state: str
    """A digest of Java's build and Spark's jars."""

    @staticmethod
    def of(java: Java, spark_home: Path, conf_folder: Path) -> ClassArchive:
        """The archive in the user's cache. Raises OSError if Spark has no jars."""
        with os.scandir(spark_home / "jars") as jars:
            found = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars)
        place = _digest(str(java.home), str(spark_home), str(conf_folder))
        return ClassArchive(cache_folder().absolute() / "stateferry", place, _digest(java.build, repr(found)))

    def options(self) -> str:
        """The options of a JVM that uses it; none without a sound archive of this user's own."""
        for file in self._made():
            with suppress(OSError):
                found = file.stat()
                is_safe = found.st_uid == os.geteuid() and not found.st_mode & 0o022 and os.pathsep not in str(file)
                if not file.stem.endswith(_checksum(file)):  # which would crash the JVM
                    file.unlink()
                elif is_safe and found.st_size:
                    return f'"-XX:SharedArchiveFile={file}" {_SILENTLY}'
        return ""

    def make_in_background(self) -> None:
        """Start a process that makes it, unless it is there, or being made, or the cache cannot be written."""
        with suppress(OSError):
            if self._made():
                return
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._beside("lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the process below holds it until it ends
                if not self._made():
                    names = (str(self.folder), self.place, self.state)
                    code = _MAKE.format(path=[str(PLACE), *sys.path], names=names)
                    _leave_behind([sys.executable, "-c", code], lock.fileno())

    def make(self) -> None:
        """Run Spark as a migration does, in a JVM that archives its classes as it ends."""
        from pyspark import SparkContext

        from jobs.jvm import FOR_SHORT_WORK
        from jobs.session import spark_context

        partial = self._beside("partial")
        partial.unlink(missing_ok=True)
        # options that are set already are left as they are: this JVM uses no archive, and starts no further process
        os.environ["SPARK_SUBMIT_OPTS"] = f'{FOR_SHORT_WORK} "-XX:ArchiveClassesAtExit={partial}"'
        with spark_context("classes", "local[1]", []) as context:
            assert SparkContext._gateway is not None
            jvm = SparkContext._gateway.proc
            context.parallelize([0], 1).map(str).collect()
        if jvm.wait() < 0:
            return  # killed
        if jvm.returncode:
            partial.unlink(missing_ok=True)
        partial.touch()
        fsync_file(partial)
        old = [*self.folder.glob(f"spark-{self.place}-*.jsa")]
        made = partial.replace(self.folder / f"{self._name}-{_checksum(partial)}.jsa")
        for file in old:
            if file != made:
                file.unlink(missing_ok=True)

    @property
    def _name(self) -> str:
        return f"spark-{self.place}-{self.state}"

    def _made(self) -> list[Path]:
        return [*self.folder.glob(f"{self._name}-*.jsa")]

    def _beside(self, suffix: str) -> Path:
        return self.folder / f"spark-{self.place}.{suffix}"


def make(folder: str, place: str, state: str) -> None:
    """What the process in the background does."""
    os.nice(19)
    ClassArchive(Path(folder), place, state).make()


def _leave_behind(command: list[str], descriptor: int) -> None:
    """Start a process that has this open file, and outlives this one."""
    nothing = subprocess.DEVNULL
    subprocess.run(
        ["sh", "-c", '"$@" &', "sh", *command],  # the shell ends at once, so the process is not our child
        check=False,
        cwd="/",
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        start_new_session=True,
        pass_fds=[descriptor],
    )


def _checksum(file: Path) -> str:
    with file.open("rb") as content:
        if not os.fstat(content.fileno()).st_size:
            return f"{0:08x}"
        with mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            return f"{zlib.crc32(whole):08x}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
