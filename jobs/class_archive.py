"""The archive of Spark's loaded classes, with which a JVM starts in half the time: made once, in the background.

It is in the user's cache folder, for one Java and one Spark. A run that finds none leaves a process behind that starts
Spark once more, with the lowest priority, and archives what it has loaded. The JVM checks an archive before it uses it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobs.java import Java, cache_folder
from migrate.packages import PLACE

_SILENTLY = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
_MAKE = "import sys; sys.path[:] = {path!r}; from jobs.class_archive import make; make({file!r})"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive for one Java and one Spark, whether it is there or not."""

    file: Path
    """Where it cannot be made, an empty file."""

    @staticmethod
    def of(java: Java, spark_home: Path, conf_folder: Path) -> ClassArchive:
        """The archive in the user's cache. Raises OSError if Spark has no jars."""
        place = _digest(str(java.home), str(spark_home), str(conf_folder))
        with os.scandir(spark_home / "jars") as jars:
            found = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars)
        name = f"spark-{place}-{_digest(java.build, repr(found))}.jsa"
        return ClassArchive(cache_folder().absolute() / "stateferry" / name)

    def options(self) -> str:
        """The options of a JVM that uses it; none without an archive of this user's own."""
        with suppress(OSError):
            found = self.file.stat()
            is_ours = found.st_uid == os.geteuid() and not found.st_mode & 0o022
            if is_ours and found.st_size and os.pathsep not in str(self.file):
                return f'"-XX:SharedArchiveFile={self.file}" -XX:+VerifySharedSpaces {_SILENTLY}'
        return ""

    def make_in_background(self) -> None:
        """Start a process that makes it, unless it is there, or being made, or the cache cannot be written."""
        with suppress(OSError):
            if self.file.exists():
                return
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._beside("lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the process below holds it until it ends
                if not self.file.exists():
                    command = [sys.executable, "-c", _MAKE.format(path=[str(PLACE), *sys.path], file=str(self.file))]
                    nothing = subprocess.DEVNULL
                    subprocess.Popen(
                        command,
                        cwd="/",
                        stdin=nothing,
                        stdout=nothing,
                        stderr=nothing,
                        start_new_session=True,
                        pass_fds=[lock.fileno()],
                    )

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
        partial.touch()
        if jvm.returncode:
            os.truncate(partial, 0)
        partial.replace(self.file)
        for other in self.file.parent.glob(f"{self._place}-*.jsa"):
            if other != self.file:
                other.unlink(missing_ok=True)

    @property
    def _place(self) -> str:
        return self.file.stem.rpartition("-")[0]

    def _beside(self, suffix: str) -> Path:
        return self.file.with_name(f"{self._place}.{suffix}")


def make(file: str) -> None:
    """What the process in the background does."""
    os.nice(19)
    ClassArchive(Path(file)).make()


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
