"""Follows a page from its first command to its last."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.tutorials.outputs import agrees, difference, shortened
from tests.tutorials.pages import Command, File, steps
from tests.tutorials.session import Session

INSTALLS = ("git ", "make ", "pip ", "python3 -m venv ", ". venv/", "pre-commit ")
"""How commands begin that install: not run where everything is installed, and their output is never compared."""
TESTS = "make test"
"""Not run: it would run this."""
_ASKS_FOR_THE_CODE = "echo $?"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command printed, and what is wrong with that."""

    command: Command
    printed: list[str]
    problem: str | None


def follow(page: Path, session: Session, *, installs: bool = False) -> Iterator[Outcome]:
    """Do everything that the page says."""
    todo = steps(page.read_text(encoding="utf-8"))
    for step, after in zip(todo, [*todo[1:], None], strict=True):
        if isinstance(step, File):
            (session.directory / step.name).write_text(step.text, encoding="utf-8")
        elif not step.text.startswith(INSTALLS):
            printed = session.run(step.text)
            problem = None if agrees(step.shown, printed) else difference(step.shown, printed)
            yield Outcome(step, printed, problem or _unexpected_end(session.code, after))
        elif installs and not step.text.startswith(TESTS):
            printed = session.run(step.text)
            yield Outcome(step, printed, "\n".join(printed) if session.code else None)


def _unexpected_end(code: int, after: File | Command | None) -> str | None:
    """A page that shows a failure shows the exit code."""
    is_shown = isinstance(after, Command) and after.text == _ASKS_FOR_THE_CODE
    return None if code == 0 or is_shown else f"it ended with exit code {code}"


def write(page: Path, outcomes: list[Outcome]) -> None:
    """Show on the page what was printed, where it shows something else."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for outcome in reversed(outcomes):
        command = outcome.command
        if outcome.problem and not command.text.startswith(INSTALLS):
            lines[command.end - len(command.shown) : command.end] = shortened(command.shown, outcome.printed)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def complaint(page: Path, outcome: Outcome) -> str:
    """What is wrong, and where."""
    return f"{page.name}:{outcome.command.line}: $ {outcome.command.text}\n{outcome.problem}"
