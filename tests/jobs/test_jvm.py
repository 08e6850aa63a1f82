"""How the JVM of a run is started: quickly, unless the user has chosen how it runs."""

from __future__ import annotations

import fcntl
import time
import zlib
from pathlib import Path

import pytest

from jobs import class_archive, jvm
from jobs.class_archive import ClassArchive
from jobs.java import Java
from jobs.spark_log import OF_JAVA

HOTSPOT = "java.vm.name = OpenJDK 64-Bit Server VM"


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark with one jar, and a user who has set nothing."""
    (tmp_path / "spark/jars").mkdir(parents=True)
    (tmp_path / "spark/jars/one.jar").write_text("1")
    for name in (*OF_JAVA, "_JAVA_OPTIONS", "SPARK_LAUNCHER_OPTS", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "spark"


def archive_of(build: str = HOTSPOT) -> ClassArchive:
    archive = jvm._archive(Java(Path("/jdk"), build))
    assert archive is not None
    return archive


def fill(archive: ClassArchive) -> Path:
    archive.folder.mkdir(parents=True, exist_ok=True)
    file = archive.folder / f"spark-{archive.place}-{archive.state}-{zlib.crc32(b'classes'):08x}.jsa"
    file.write_text("classes")
    return file


def test_an_archive_is_for_one_java_and_one_spark(spark_home: Path) -> None:
    first = archive_of()
    assert archive_of() == first
    others = [archive_of(f"{HOTSPOT} 18")]
    (spark_home / "jars/one.jar").write_text("22")
    others.append(archive_of())
    assert first not in others


def test_the_launcher_gets_its_jar_where_a_shell_keeps_its_path_whole(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert jvm._launcher_jar_option() == ""
    (spark_home / "jars/spark-launcher_2.13-4.2.0.jar").touch()
    assert jvm._launcher_jar_option() == f"-Xbootclasspath/a:{spark_home}/jars/spark-launcher_2.13-4.2.0.jar"
    monkeypatch.setenv("SPARK_HOME", str(spark_home.rename(spark_home.with_name("my spark"))))
    assert jvm._launcher_jar_option() == ""


@pytest.mark.parametrize("name", ["SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"])
def test_options_that_the_user_has_chosen_are_left_alone(
    name: str, spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "-Da=b")
    archive_of()
    monkeypatch.setenv(name, "--conf spark.driver.extraJavaOptions=-XX:+UseZGC")
    assert jvm._archive(Java(Path("/jdk"), HOTSPOT)) is None


def test_options_in_sparks_configuration_and_of_another_machine_are_left_alone(spark_home: Path) -> None:
    assert jvm._archive(Java(Path("/jdk"), "java.vm.name = Eclipse OpenJ9 VM")) is None
    (spark_home / "conf").mkdir()
    (spark_home / "conf/spark-defaults.conf").write_text("spark.driver.defaultJavaOptions -Xss4m\n")
    assert jvm._archive(Java(Path("/jdk"), HOTSPOT)) is None


def test_only_a_sound_archive_that_nobody_else_can_write_is_used(spark_home: Path) -> None:
    archive = archive_of()
    assert archive.options() == ""
    file = fill(archive)
    assert f'"-XX:SharedArchiveFile={file}"' in archive.options()
    file.chmod(0o666)
    assert archive.options() == ""
    file.chmod(0o644)
    file.write_text("class")
    assert archive.options() == ""
    assert not file.exists()


def test_an_archive_is_made_by_one_process_at_a_time_and_where_it_can_be(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = spark_home / "started"
    monkeypatch.setattr(class_archive, "_MAKE", f"open({str(started)!r}, 'a').write('x'); import time; time.sleep(60)")
    archive = archive_of()
    made = fill(archive)
    archive.make_in_background()
    made.unlink()
    with archive._beside("lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        archive.make_in_background()
    assert not started.exists()

    cache = archive.folder.parent
    archive.make_in_background()
    archive.make_in_background()
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert started.read_text() == "x"
    cache.rename(cache.with_name("away"))
    cache.write_text("no folder")
    archive.make_in_background()
    assert started.read_text() == "x"
