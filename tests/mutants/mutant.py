"""A mutant: one safety claim, broken by one change of the code, and the tests that must notice.

It names definitions and tests, not files: to move one to another module needs no change here.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGES = ("formats", "migrate", "jobs")
_TEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)


class StaleError(Exception):
    """The code to change, or the test to run, does not exist or exists more than once."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The text of a function or class, and where it stands in its module."""

    file: Path
    start: int
    text: str


@dataclass(frozen=True)
class Code:
    """Every definition of the product and every test, by name, in the repository at `root`."""

    root: Path

    @cached_property
    def definitions(self) -> dict[str, list[Definition]]:
        """By dotted name within the module: `function`, `Class.method`."""
        found = defaultdict(list)
        for package in PACKAGES:
            for file in sorted((self.root / package).rglob("*.py")):
                text = file.read_text(encoding="utf-8")
                lines = text.splitlines(keepends=True)
                for name, first, last in _spans(ast.parse(text)):
                    start = len("".join(lines[: first - 1]))
                    found[name].append(Definition(file, start, "".join(lines[first - 1 : last])))
        return found

    @cached_property
    def tests(self) -> dict[str, list[str]]:
        """The files of each test, by its function's name."""
        found = defaultdict(list)
        for file in sorted((self.root / "tests").rglob("test_*.py")):
            for name in _TEST.findall(file.read_text(encoding="utf-8")):
                found[name].append(file.relative_to(self.root).as_posix())
        return found

    def test_id(self, test: str) -> str:
        """As pytest names it. Raises StaleError."""
        stem, _, name = test.rpartition("::")
        files = [file for file in self.tests.get(name.partition("[")[0], []) if stem in ("", Path(file).stem)]
        if len(files) != 1:
            raise StaleError(f"{len(files)} files have a test {test}; name one as `module::test`")
        return f"{files[0]}::{name}"


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old` occurs exactly once in the product's definitions of that name."""

    name: str
    claim: str
    """Of docs/correctness.md: an invariant, or the switch."""
    definition: str
    """`function` or `Class.method`."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Each alone would do; as few and as fast as can be. `test`, or `module::test` where two modules have one of it."""

    def patched(self, code: Code) -> tuple[Path, str]:
        """The file to change, and its text with the change. Raises StaleError."""
        among = code.definitions.get(self.definition, [])
        found = [each for each in among if self.old in each.text]
        if len(found) != 1 or found[0].text.count(self.old) != 1:
            times = sum(each.text.count(self.old) for each in found)
            raise StaleError(f"{len(among)} definitions of {self.definition} have the text to change {times} times")
        text = found[0].file.read_text(encoding="utf-8")
        at = text.index(self.old, found[0].start)
        return found[0].file, text[:at] + self.new + text[at + len(self.old) :]


def _spans(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """The name, the first and the last line of each definition, decorators included."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            yield f"{prefix}{child.name}", first, child.end_lineno or child.lineno
            inner = f"{prefix}{child.name}."
        if isinstance(child, ast.stmt):
            yield from _spans(child, inner)
