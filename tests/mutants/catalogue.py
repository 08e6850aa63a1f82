"""The mutants, one in each paragraph of this folder's texts. A claim without one is only a sentence.

The first line names the mutant, its claim and the definition; then come what to replace (`-`), by what (`+`), and each
test in a line of its own.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.mutants.mutant import Mutant


def read_mutants(text: str) -> Iterator[Mutant]:
    """Those of one text."""
    for paragraph in text.split("\n\n")[1:]:
        head, *lines = paragraph.splitlines()
        name, claim, definition = head.split()
        old, new = ("\n".join(line[2:] for line in lines if line.startswith(sign)) for sign in "-+")
        yield Mutant(name, claim, definition, old, new, tuple(line for line in lines if line[0] not in "-+"))


MUTANTS = tuple(
    mutant
    for file in sorted(Path(__file__).parent.glob("*.txt"))
    for mutant in read_mutants(file.read_text(encoding="utf-8"))
)
