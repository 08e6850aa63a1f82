"""Files and directories: durable writes, hard links, owners and modes, two names exchanged at once.

The order is always the same: data, then the directory that names it, then the file that refers to it (I1).
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import resource
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from migrate.errors import RefusedError
from migrate.stores.regular_files import MAX_DEPTH

MEMORY = Path("/dev/shm")
_ROOM_BYTES = 32 << 20
"""Several times what RocksDB reserves for the manifests of a new database."""
_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:")
_NOT_FOR_DELTA = re.compile(r"[\x00-\x1f\x7f%\\[\]^|]")
_THREADS = 16
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2
_NOTHING = ".stateferry-nothing"
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def fsync_file(path: Path) -> None:
    """Make the file's content durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise _named(error, path) from None
    finally:
        os.close(descriptor)


fsync_directory = fsync_file
"""Make the names in a directory durable: the same call on the directory itself."""


def fsync_all(paths: Iterable[Path]) -> None:
    """Make these files, and the names in these directories, durable, in any order: disks take several at a time."""
    side_by_side(fsync_file, sorted(set(paths)))


def touch(paths: Iterable[Path]) -> None:
    """Let these files or directories have been modified now."""
    for path in paths:
        os.utime(path)


def side_by_side(work: Callable[[Path], None], paths: Sequence[Path]) -> None:
    """Do the work for each path, on 16 threads: most of it must be waiting for a disk."""

    def each_of(share: Sequence[Path]) -> None:
        for path in share:
            work(path)

    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(each_of, [paths[first::_THREADS] for first in range(_THREADS)]):
            pass


def fsync_tree(root: Path) -> None:
    """Make every file and every name below `root` durable, and the name of `root` itself."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                fsync_file(path)
        fsync_directory(Path(folder))
    fsync_directory(root.parent)


def make_directories(path: Path) -> None:
    """Create a directory and its missing parents, durably. Raises RefusedError where there can be none."""
    missing = takewhile(lambda folder: not folder.exists(), (path, *path.parents))
    for folder in reversed([*missing]):
        try:
            folder.mkdir(exist_ok=True)
        except FileNotFoundError as error:  # /proc and /sys say so
            raise RefusedError(f"no directory can be made in {folder.parent}", hint="choose another place") from error
        fsync_directory(folder.parent)


def write_file(path: Path, content: bytes) -> None:
    """Write a file that other users may read, where the umask lets them; nothing of it is durable."""
    try:
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o644)) as out:
            out.write(content)
    except OSError as error:
        raise _named(error, path) from None


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and sync its content; its name is durable only after its directory is synced."""
    with path.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def write_durably(path: Path, content: bytes) -> None:
    """Write the whole file or nothing: a temporary file beside it, synced, then renamed."""
    _write_whole(path, content, Path.replace, os.getpid())


def write_new(path: Path, content: bytes) -> None:
    """As `write_durably`, for a file that must not exist. Raises FileExistsError, and leaves that one as it is.

    Of several writers, on any hosts, one succeeds: their temporary files have different names. Raises RefusedError
    where the file system has no hard links.
    """
    _write_whole(path, content, _link_new, uuid.uuid4().hex)


def check_has_links(folder: Path) -> None:
    """Raises RefusedError where the file system of a directory has no hard links."""
    probe = folder / f".{0:020d}.{uuid.uuid4().hex}.links"
    try:
        write_new(probe, b"")
    finally:
        probe.unlink(missing_ok=True)


def _link_new(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        if not source.samefile(target):  # over NFS, a link whose answer was lost is found by its repetition
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise RefusedError(
            f"cannot make a hard link in {target.parent}: {error.strerror}",
            hint="choose a directory on a file system that has hard links",
        ) from error


def _write_whole(path: Path, content: bytes, name: Callable[[Path, Path], object], writer: object) -> None:
    temporary = path.with_name(f".{path.name}.{writer}.tmp")
    try:
        write_synced(temporary, content)
        name(temporary, path)
        fsync_directory(path.parent)
    except OSError as error:
        raise _named(error, path) from None
    finally:
        temporary.unlink(missing_ok=True)


def _named(error: OSError, path: Path) -> OSError:
    """The error with the file's name: a failed write or sync does not give it."""
    error.filename = error.filename or str(path)
    return error


def copy_file(source: Path, target: Path) -> None:
    """Copy a file with mode and times, and with its owner where this user may set it."""
    shutil.copy2(source, target)
    keep_owner(source, target)


def keep_owner(source: Path, target: Path) -> None:
    """Give `target` the owner of `source`, where this user may."""
    status = source.stat()
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.chown(target, status.st_uid, status.st_gid)
        except PermissionError:
            return  # only root may change owners; for any other user the new files are that user's


def protect_like(root: Path, folder: Path, is_secret: Callable[[str], bool]) -> None:
    """Restrict `folder` to users who may read all of the directory `root`, and give it the owner of `root` if possible.

    `is_secret`: whether a file of this name counts. If `root` does not exist, only the owner gets access.
    """
    allowed = stat.S_IRWXU
    with suppress(FileNotFoundError, NotADirectoryError):
        allowed |= _readers(root, is_secret)
        keep_owner(root, folder)
        if folder.stat().st_gid != root.stat().st_gid:
            allowed &= ~stat.S_IRWXG
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & ~allowed & (stat.S_IRWXG | stat.S_IRWXO):
        folder.chmod(mode & allowed)


def _readers(root: Path, is_secret: Callable[[str], bool]) -> int:
    """The permission bits of group and others, each where it may reach and read everything below `root`."""
    group = root.stat().st_gid
    bits = stat.S_IRWXG | stat.S_IRWXO
    for above in root.parents:
        bits &= _let_in(above.stat(), group, stat.S_IXOTH)
    for inside, folders, names in os.walk(root):
        if len(Path(inside).relative_to(root).parts) >= MAX_DEPTH:
            folders.clear()  # no store lies there
        bits &= _let_in(Path(inside).stat(), group, stat.S_IXOTH)
        for name in filter(is_secret, names):
            with suppress(FileNotFoundError):  # its owner may be running
                bits &= _let_in(Path(inside, name).stat(), group, stat.S_IROTH)
    return bits


def _let_in(status: os.stat_result, group: int, bit: int) -> int:
    """The bits of group and others that the mode allows. `bit`: that of others, used for any group but the file's."""
    of_group = bit << 3 if status.st_gid == group else bit
    return stat.S_IRWXG * bool(status.st_mode & of_group) | stat.S_IRWXO * bool(status.st_mode & bit)


def own_like(old: Path, new: Path) -> bool:
    """Give everything in the new store the owner and mode of the old directory and its files; whether any changed."""
    pattern = next(filter(Path.is_file, files_named("CURRENT", old)), old)
    changed = False
    for folder, _, names in os.walk(new):
        for path, like in ((Path(folder), old), *((Path(folder, name), pattern) for name in names)):
            if (before := _access(path)) == _access(like):
                continue
            if path.is_dir() or pattern != old:
                shutil.copymode(like, path)
            keep_owner(like, path)
            changed |= before != _access(path)
    return changed


def _access(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_mode, status.st_uid, status.st_gid


def files_named(name: str, folder: Path) -> Iterator[Path]:
    """The files of this name in a directory and those below it, in order. No link to a directory is followed."""
    for inside, folders, names in os.walk(folder):
        folders.sort()
        if name in names:
            yield Path(inside, name)


def link_file(source: Path, target: Path) -> None:
    """Make a hard link, to the file itself where `source` is a symbolic link.

    Raises RefusedError where the two are on different file systems.
    """
    try:
        os.link(source.resolve() if source.is_symlink() else source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise cannot_link(source, target, error.strerror) from error


def cannot_link(source: Path, target: Path, reason: str | None = os.strerror(errno.EXDEV)) -> RefusedError:
    """The error for a hard link that cannot be made."""
    return RefusedError(
        f"cannot hard-link {source} to {target}: {reason}",
        hint='put work_dir on the file system of the state directory, or set [run] snapshot = "copy"',
    )


def existing_parent(path: Path) -> Path:
    """The path itself, or its nearest parent that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def link_or_copy(source: Path, target: Path) -> None:
    """Make a hard link where the file system can, a copy elsewhere."""
    try:
        link_file(source, target)
    except RefusedError:
        copy_file(source, target)


def remove_tree(path: Path) -> None:
    """Remove a directory and everything in it, if it exists. Raises RefusedError where it is none."""
    if path.is_symlink() or path.is_file():
        kind = "symbolic link" if path.is_symlink() else "file"
        raise RefusedError(
            f"{path} is a {kind}, in the place of a directory that is removed now",
            hint="move it elsewhere, then run the same command again",
        )
    if path.exists():
        shutil.rmtree(path)


def remove_empty(folder: Path, *, below: Path) -> None:
    """Remove `folder` and its parents up to `below`, as far as they are empty."""
    while folder != below and (not folder.exists() or not any(folder.iterdir())):
        if folder.exists():
            folder.rmdir()
        folder = folder.parent


def table_directory(given: str | Path) -> Path:
    """The directory of a Delta table. Raises RefusedError for a URL, which a path would take for a folder's name."""
    path = Path(given).expanduser()
    if path.parts and _SCHEME.fullmatch(path.parts[0]):
        raise RefusedError(
            f"{given} is no path: tables lie in directories, and not in object stores",
            hint="name a directory that is mounted here, and on every executor",
        )
    return path.absolute()


def delta_uri(folder: Path) -> str:
    """A directory as a URI for delta-rs, which would take a plain path with a space or a % for an escaped one.

    Raises RefusedError for a path in which it finds no table, or panics.
    """
    path = folder.absolute()
    if (found := _NOT_FOR_DELTA.search(str(path))) is not None:
        raise RefusedError(
            f"the path {str(path)!r} contains {found[0]!r}, with which delta-rs opens no table",
            hint="choose another directory, or rename that one",
        )
    return path.as_uri()


def present(paths: Iterable[Path]) -> dict[Path, os.stat_result]:
    """The files that exist, with their status: a running owner may remove some, and a link may lead nowhere."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = path.stat()
    return found


def raise_open_files() -> int:
    """Let this process open as many files as it is allowed to, and return that number: a scan may need thousands."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS has a limit that it does not tell
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if now == resource.RLIM_INFINITY else now


def total_size(paths: Iterable[Path]) -> int:
    """The total size of these files in bytes."""
    return sum(path.stat().st_size for path in paths)


def content_digest(file: Path) -> str:
    """The SHA-256 of a file's content, in hex."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A temporary directory for small files: in TMPDIR if that is set, else in memory where that has room.

    On a disk, those of a new store take about three times as long.
    """
    in_memory = "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK | os.X_OK)
    has_room = in_memory and shutil.disk_usage(MEMORY).free >= _ROOM_BYTES
    return tempfile.TemporaryDirectory(prefix="stateferry-", dir=MEMORY if has_room else None)


class ExchangeUnsupportedError(OSError):
    """The operating system, or the file system, cannot exchange two directories."""


def exchange(first: Path, second: Path) -> None:
    """Exchange two names in one step, so that a reader finds one or the other; durable once both parents are synced.

    Linux: renameat2(2) with RENAME_EXCHANGE (ext4, XFS, Btrfs, tmpfs, overlayfs). macOS: renamex_np(2) with RENAME_SWAP
    (APFS). NFS and some FUSE file systems have neither.

    Raises ExchangeUnsupportedError, or OSError as rename(2) does.
    """
    call = _system_call()
    if call is None:
        raise ExchangeUnsupportedError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(first))
    number = call(os.fsencode(first), os.fsencode(second))
    if number == 0:
        return
    kind = ExchangeUnsupportedError if number in _UNSUPPORTED else OSError
    raise kind(number, os.strerror(number), str(first), None, str(second))


def can_rename(folder: Path, other: Path) -> bool:
    """Whether files can be renamed between two directories: not across file systems, nor across mounts of one.

    Tested by renaming a missing file: Linux refuses that across mounts before it searches the name.
    """
    try:
        (folder / _NOTHING).rename(other / _NOTHING)
    except OSError as error:
        return error.errno != errno.EXDEV and folder.stat().st_dev == other.stat().st_dev
    return True


def can_exchange(folder: Path) -> bool:
    """Whether the file system of `folder` can exchange directories, tested with two temporary ones."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".exchange-") as made:
        first, second = Path(made, "first"), Path(made, "second")
        first.mkdir()
        second.mkdir()
        try:
            exchange(first, second)
        except ExchangeUnsupportedError:
            return False
    return True


def _system_call() -> Callable[[bytes, bytes], int] | None:
    """The function that exchanges two paths and returns an errno, 0 for success; None: the system has none."""
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        swap = getattr(library, "renamex_np", None)
        return swap and (lambda first, second: _errno(swap(first, second, ctypes.c_uint(_RENAME_SWAP))))
    rename = getattr(library, "renameat2", None)
    return rename and (
        lambda first, second: _errno(rename(_AT_FDCWD, first, _AT_FDCWD, second, ctypes.c_uint(_RENAME_EXCHANGE)))
    )


def _errno(result: int) -> int:
    return 0 if result == 0 else ctypes.get_errno()
