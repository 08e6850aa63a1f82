"""A mutant: one safety claim, broken by one change of the code, and the tests that must notice.

It names definitions and tests, not files, and code as `ast.unparse` writes it: moved or formatted anew, it still fits.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import indent

PACKAGES = ("formats", "migrate", "jobs")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_TEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)


class StaleError(Exception):
    """The code to change, or the test to run, does not exist or exists more than once."""


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A function or class as `ast.unparse` writes it, indented, and the lines of its module on which it stands."""

    file: Path
    lines: slice
    text: str

    def replaced(self, text: str) -> str:
        """Its module with this text in its place."""
        lines = self.file.read_text(encoding="utf-8").splitlines(keepends=True)
        lines[self.lines] = [text]
        return "".join(lines)


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
                for name, node in _named(ast.parse(file.read_text(encoding="utf-8"))):
                    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                    text = indent(ast.unparse(node), " " * node.col_offset) + "\n"
                    found[name].append(Definition(file, slice(first - 1, node.end_lineno), text))
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
    """`old` occurs exactly once in the product's definitions of that name: each statement on a line, no comments."""

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
        old = self.old.replace('"', "'")  # which `ast.unparse` prefers
        times = {each: each.text.count(old) or each.text.count(self.old) for each in among}
        if sum(times.values()) != 1:
            stale = (
                f"{len(among)} definitions of {self.definition} have this {sum(times.values())} times:\n{self.old}\n"
            )
            raise StaleError("\n".join([stale, *(f"{each.file}:\n{each.text}" for each in among)]))
        (found,) = filter(times.__getitem__, among)
        return found.file, found.replaced(found.text.replace(old if old in found.text else self.old, self.new))


def _named(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, _Definition]]:
    """Every definition, by its dotted name."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, _Definition):
            yield f"{prefix}{child.name}", child
            inner = f"{prefix}{child.name}."
        if isinstance(child, ast.stmt):
            yield from _named(child, inner)
