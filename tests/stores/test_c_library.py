"""RocksDB's C library: where it is found, and how it is unpacked."""

import importlib.util
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from migrate.stores.rocksdb import c_api, c_library
from migrate.stores.rocksdb.c_api import CApi
from migrate.stores.rocksdb.c_library import LibraryMissingError, cache_directory, unpacked_library
from migrate.stores.rocksdb.writing import ROCKSDB_VERSION
from tests.support import small_disk

JARS = Path(str(importlib.util.find_spec("pyspark").origin)).parent / "jars"  # type: ignore[union-attr]
(JAR,) = JARS.glob("rocksdbjni-*.jar")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("STATEFERRY_CACHE", str(folder))
    return folder


@pytest.fixture
def without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_library, "find_spec", lambda _: None)
    monkeypatch.delenv("SPARK_HOME", raising=False)


def _spark_home(folder: Path, monkeypatch: pytest.MonkeyPatch, *versions: str) -> Path:
    (folder / "jars").mkdir(parents=True)
    for version in versions:
        (folder / "jars" / f"rocksdbjni-{version}.jar").symlink_to(JAR)
    monkeypatch.setenv("SPARK_HOME", str(folder))
    return folder / "jars"


def test_it_is_unpacked_once_and_can_be_loaded(cache: Path) -> None:
    library = unpacked_library()
    first = library.stat()
    assert [*cache.iterdir()] == [library]
    assert stat.S_IMODE(first.st_mode) == 0o500
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert unpacked_library() == library
    assert library.stat().st_ino == first.st_ino
    api = CApi(library)
    assert len({api.address(name) for name in ("iter_valid", "iter_next", "iter_key", "sstfilewriter_put")} - {0}) == 4


def test_pyspark_is_not_imported(cache: Path) -> None:
    script = (
        "import sys; from migrate.stores.rocksdb.c_library import unpacked_library as found; "
        "assert found().exists(); assert not {'pyspark', 'py4j'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.usefixtures("cache", "without_pyspark")
def test_spark_home_serves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _spark_home(tmp_path / "spark", monkeypatch, "8.1.0", ROCKSDB_VERSION)
    assert unpacked_library().exists()


@pytest.mark.parametrize("size", [1000, None])
def test_a_file_that_is_damaged_is_made_again(size: int | None, cache: Path) -> None:
    library = unpacked_library()
    whole = library.read_bytes()
    library.chmod(0o600)
    library.write_bytes(whole[:size] if size else whole[:1000] + bytes(len(whole) - 1000))
    assert unpacked_library() == library
    assert library.read_bytes() == whole
    assert [*cache.iterdir()] == [library]


@pytest.mark.usefixtures("cache", "without_pyspark")
def test_another_build_of_the_same_version_gets_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with a library that only begins as the real one does: it is unpacked, and cannot be loaded."""
    jars = _spark_home(tmp_path / "spark", monkeypatch)
    names = []
    for content in (b"\x7fELF one", b"\x7fELF two"):
        with zipfile.ZipFile(jars / f"rocksdbjni-{ROCKSDB_VERSION}.jar", "w") as jar:
            jar.writestr(c_library._member(), content)
        names.append(unpacked_library())
        assert names[-1].read_bytes() == content
        with pytest.raises(LibraryMissingError, match="cannot load"):
            CApi(names[-1])
    assert names[0] != names[1]


@pytest.mark.usefixtures("cache", "without_pyspark")
def test_a_damaged_jar_is_not_unpacked(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = _spark_home(tmp_path / "spark", monkeypatch)
    jar = jars / JAR.name
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_STORED) as made:
        made.writestr(c_library._member(), b"\x7fELF" * 1000)
    content = bytearray(jar.read_bytes())
    content[2000] ^= 1
    jar.write_bytes(content)
    with pytest.raises(LibraryMissingError, match=r"cannot unpack .*CRC"):
        unpacked_library()
    assert not [*cache.iterdir()]
    os.truncate(jar, 3000)
    with pytest.raises(LibraryMissingError, match=r"cannot unpack .*not a zip"):
        unpacked_library()


@pytest.mark.usefixtures("cache", "without_pyspark")
def test_a_library_of_another_version_is_refused_though_its_jar_has_the_right_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _spark_home(tmp_path / "spark", monkeypatch, ROCKSDB_VERSION)
    library = unpacked_library()
    monkeypatch.setattr("migrate.stores.rocksdb.c_api.ROCKSDB_VERSION", "9.9.0")
    with pytest.raises(LibraryMissingError, match=rf"is RocksDB {ROCKSDB_VERSION}, and rocksdict has 9\.9\.0"):
        CApi(library)


@pytest.mark.usefixtures("cache", "without_pyspark")
def test_it_says_why_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LibraryMissingError, match=r"no PySpark here, .* and no SPARK_HOME"):
        unpacked_library()
    jars = _spark_home(tmp_path / "empty", monkeypatch)
    with pytest.raises(LibraryMissingError, match=rf"no rocksdbjni-\*\.jar.*in {jars}"):
        unpacked_library()
    jars = _spark_home(tmp_path / "other", monkeypatch, "8.11.4", "9.8.40")
    words = rf"the jars in {jars} have RocksDB 8\.11\.4 and 9\.8\.40, and rocksdict has {ROCKSDB_VERSION}"
    with pytest.raises(LibraryMissingError, match=words):
        unpacked_library()


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    "system, machine, libc, member",
    [
        ("linux", "x86_64", True, "librocksdbjni-linux64.so"),
        ("linux", "x86_64", False, "librocksdbjni-linux64-musl.so"),
        ("linux", "aarch64", True, "librocksdbjni-linux-aarch64.so"),
        ("linux", "aarch64", False, "librocksdbjni-linux-aarch64-musl.so"),
        ("linux", "ppc64le", True, ""),
        ("darwin", "arm64", True, ""),
    ],
)
def test_each_platform_has_its_own(
    system: str, machine: str, *, libc: bool, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.system", system.capitalize)
    monkeypatch.setattr(os, "confstr_names", {"CS_GNU_LIBC_VERSION": 2} if libc else {})
    if member:
        assert c_library._member() == member
        assert member in zipfile.ZipFile(JAR).namelist()
    else:
        with pytest.raises(LibraryMissingError, match=rf"Linux .* only, and this is {system.capitalize()} {machine}"):
            unpacked_library()


_UNPACKING = """
import sys
from migrate.stores.rocksdb.c_api import library
sys.stdin.readline()
for _ in range(3):
    library().address("iter_next")
"""


def test_many_processes_may_unpack_it_at_once(cache: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", _UNPACKING], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(6)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors.decode()
    assert [*cache.iterdir()] == [unpacked_library()]


def test_the_cache_is_where_caches_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATEFERRY_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() == tmp_path / "home/.cache/stateferry"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_directory() == tmp_path / "caches/stateferry"
    monkeypatch.setenv("STATEFERRY_CACHE", "~/named")
    assert cache_directory() == tmp_path / "home/named"
    assert stat.S_IMODE((tmp_path / "home/named").stat().st_mode) == 0o700


def test_without_a_home_it_is_a_private_one_among_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STATEFERRY_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cache_directory() == tmp_path / f"stateferry-{os.geteuid()}"
    (tmp_path / f"stateferry-{os.geteuid()}").chmod(0o777)
    with pytest.raises(LibraryMissingError, match="may be written to by others"):
        cache_directory()


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_cache_that_others_may_write_to_is_refused(mode: int, cache: Path) -> None:
    cache.mkdir()
    cache.chmod(mode)
    with pytest.raises(LibraryMissingError, match="may be written to by others: name another one in STATEFERRY_CACHE"):
        unpacked_library()
    assert not [*cache.iterdir()]


def test_a_cache_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    with pytest.raises(LibraryMissingError, match=f"belongs to the user {cache.stat().st_uid}"):
        unpacked_library()


def test_a_cache_that_is_a_link_is_refused(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    cache.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LibraryMissingError, match="is a symbolic link"):
        unpacked_library()


def test_a_cache_that_is_a_file_is_refused(cache: Path) -> None:
    cache.touch()
    with pytest.raises(LibraryMissingError):
        unpacked_library()


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        monkeypatch.setenv("STATEFERRY_CACHE", str(disk / "cache"))
        with pytest.raises(LibraryMissingError, match="No space left"):
            unpacked_library()
        assert not [*(disk / "cache").iterdir()]


def test_a_disk_from_which_nothing_is_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "disk", "32m,noexec") as disk:
        monkeypatch.setenv("STATEFERRY_CACHE", str(disk / "cache"))
        with pytest.raises(LibraryMissingError, match=r"cache is mounted noexec: name another .* in STATEFERRY_CACHE"):
            unpacked_library()


def test_a_home_that_cannot_be_written_to_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        (disk / ".cache/stateferry").mkdir(parents=True)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        monkeypatch.delenv("STATEFERRY_CACHE", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", str(disk))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        assert cache_directory() == tmp_path / f"stateferry-{os.geteuid()}"
        monkeypatch.setenv("STATEFERRY_CACHE", str(disk / ".cache/stateferry"))
        with pytest.raises(LibraryMissingError, match="cannot be written to"):
            unpacked_library()


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("libc", [True, False])
def test_the_library_of_each_platform_exports_every_function_that_is_called(
    machine: str, *, libc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(os, "confstr_names", {"CS_GNU_LIBC_VERSION": 2} if libc else {})
    exported = {*unpacked_library().read_bytes().split(b"\0")}
    called = {f"rocksdb_{name}".encode() for names in c_api._SIGNATURES.values() for name in names.split()}
    assert len(called) > 40
    assert called | {b"Java_org_rocksdb_RocksDB_version"} <= exported
