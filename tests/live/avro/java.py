"""The real Avro of Java, which reads values with another schema than the one that wrote them."""

import base64
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.live.maven import ProgramError, cache_locked, run_maven

VERSIONS = ("1.11.5", "1.12.1")

_HERE = Path(__file__).parent
_TIMEOUT_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class Case:
    """Values that one schema wrote, and the schema to read them with."""

    writer: str
    reader: str
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JavaError:
    """What Java threw instead of a value."""

    message: str


def resolve_by_java(version: str, cases: Sequence[Case]) -> Iterator[list[bytes | JavaError]]:
    """What a release of Avro makes of each case's values, all in one Java process. Raises ProgramError."""
    lines = (" ".join(map(_word, (case.writer.encode(), case.reader.encode(), *case.values))) for case in cases)
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", _classpath(version)]
    result = subprocess.run(
        [*command, str(_HERE / "Resolve.java")],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if result.returncode:
        raise ProgramError(f"Avro {version} exited {result.returncode}:\n{result.stderr}")
    for line in result.stdout.splitlines():
        yield [_answer(word) for word in line.split(" ")]


def _word(data: bytes) -> str:
    return "b" + base64.b64encode(data).decode()


def _answer(word: str) -> bytes | JavaError:
    if word.startswith("="):
        return bytes.fromhex(word[1:])
    return JavaError(base64.b64decode(word[1:]).decode())


def _classpath(version: str) -> str:
    with cache_locked("avro-classpath") as cache:
        file = cache / "avro-classpath" / version
        if not file.exists():
            properties = {"avro.version": version, "mdep.outputFile": str(file)}
            run_maven(_HERE / "pom.xml", ["dependency:build-classpath"], properties)
        return file.read_text(encoding="utf-8")
