"""RocksDB as a C library, which PySpark carries in a jar: found, and unpacked once per machine.

The jar `rocksdbjni-VERSION.jar` holds a library for each platform, for Java; each exports RocksDB's C API too. Only the
version that rocksdict has serves: both read the same stores, and write the same tables.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo
from zlib import crc32

from migrate.stores.rocksdb.writing import ROCKSDB_VERSION

CACHE = "STATEFERRY_CACHE"
"""The environment variable that names the cache directory."""
_NAME = "stateferry"
_PREFIX = "rocksdbjni-"
_BUILDS = {"x86_64": "linux64", "aarch64": "linux-aarch64"}


class LibraryMissingError(Exception):
    """Why there is no library of RocksDB to call, for people to read."""


def find_library() -> tuple[str, Path]:
    """The library's name in the jar, and the jar. Raises LibraryMissingError."""
    return _member(), _jar()


def unpacked_library() -> Path:
    """The library for this platform, in the cache directory. Raises LibraryMissingError.

    Its name has the size of the jar, and the size and CRC-32 of the library in it, as the jar's own directory states
    them: to hash 70 MB in each worker would take longer than its chunk. That is enough, since nobody else can write
    into the cache directory: the CRC-32 is for two builds of one version, and shows what a power cut or the disk has
    done to the file: it is made again then.
    """
    member, jar = find_library()
    try:
        with ZipFile(jar) as opened:
            entry = opened.getinfo(member)
            label = f"{jar.stem}-{jar.stat().st_size}-{Path(member).stem}-{entry.CRC:08x}-{entry.file_size}.so"
            library = cache_directory() / label
            if not _is_whole(library, entry):
                _unpack(opened, entry, library)
    except KeyError:
        raise LibraryMissingError(f"{jar} has no {member}") from None
    except (BadZipFile, OSError) as error:
        way = f"name another directory in {CACHE}"
        raise LibraryMissingError(f"cannot unpack {member} of {jar}: {error}; {way}") from error
    if os.statvfs(library).f_flag & os.ST_NOEXEC:
        raise LibraryMissingError(f"{library.parent} is mounted noexec: name another directory in {CACHE}")
    return library


def _is_whole(library: Path, entry: ZipInfo) -> bool:
    try:
        return crc32(library.read_bytes()) == entry.CRC  # 15 MB: 10 ms
    except FileNotFoundError:
        return False


def _unpack(jar: ZipFile, entry: ZipInfo, library: Path) -> None:
    """Many processes may do so at once: each has a file of its own, and the last one's gets the name."""
    descriptor, name = tempfile.mkstemp(prefix=".unpacking-", dir=library.parent)
    try:
        with os.fdopen(descriptor, "wb") as out, jar.open(entry) as content:
            shutil.copyfileobj(content, out, 1 << 20)  # raises BadZipFile for another CRC-32
            out.flush()
            os.fchmod(descriptor, 0o500)
            os.fsync(descriptor)
        Path(name).replace(library)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _member() -> str:
    """The name of this platform's library in the jar."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _BUILDS:
        here = f"{platform.system()} {machine}"
        raise LibraryMissingError(f"it is called on Linux (x86_64 and aarch64) only, and this is {here}")
    libc = "" if "CS_GNU_LIBC_VERSION" in os.confstr_names else "-musl"
    return f"librocksdbjni-{_BUILDS[machine]}{libc}.so"


def _jar() -> Path:
    folders = [*dict.fromkeys(_jar_folders())]
    found = {jar.stem.removeprefix(_PREFIX): jar for each in folders for jar in each.glob(f"{_PREFIX}*.jar")}
    if (jar := found.get(ROCKSDB_VERSION)) is not None:
        return jar
    if not folders:
        raise LibraryMissingError("there is no PySpark here, whose jars have RocksDB's library, and no SPARK_HOME")
    where = " or ".join(map(str, folders))
    if not found:
        raise LibraryMissingError(f"there is no {_PREFIX}*.jar, which has RocksDB's library, in {where}")
    versions = " and ".join(sorted(found))
    raise LibraryMissingError(f"the jars in {where} have RocksDB {versions}, and rocksdict has {ROCKSDB_VERSION}")


def _jar_folders() -> Iterator[Path]:
    """Where PySpark's jars may be; it is not imported, which takes longer than many a chunk."""
    with suppress(ValueError):  # one that was put into sys.modules by hand
        spec = find_spec("pyspark")
        yield from (Path(place, "jars") for place in (spec and spec.submodule_search_locations) or ())
    if home := os.environ.get("SPARK_HOME"):
        yield Path(home, "jars")


def cache_directory() -> Path:
    """Where files are kept from one process to the next, which nobody else can change; it is made here.

    `$STATEFERRY_CACHE`, else `stateferry` in `$XDG_CACHE_HOME` or `~/.cache`, or where that cannot be written to, as in
    YARN's containers, a directory of this user's among the temporary files. Raises LibraryMissingError where others
    could change it, OSError where it cannot be made or written to.
    """
    if named := os.environ.get(CACHE):
        return _private(Path(named).expanduser().absolute())
    with suppress(OSError, RuntimeError):  # RuntimeError: no home is known
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return _private(Path(caches, _NAME).absolute())
    return _private(Path(tempfile.gettempdir(), f"{_NAME}-{os.geteuid()}"))


def _private(directory: Path) -> Path:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        problem = "is a symbolic link"
    elif status.st_uid != os.geteuid():
        problem = f"belongs to the user {status.st_uid}"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = "may be written to by others"
    else:
        if not os.access(directory, os.W_OK | os.X_OK) and not any(directory.iterdir()):
            raise PermissionError(errno.EACCES, "cannot be written to", str(directory))
        return directory
    raise LibraryMissingError(f"the cache directory {directory} {problem}: name another one in {CACHE}")
