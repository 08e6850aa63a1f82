"""`python -m tests.mutants`: break each safety claim on purpose, and see that a test notices.

Every mutant is tried in a copy of its own. Caught is one that makes a test fail by what the test looks at: code that
does not run at all proves nothing, and counts as broken. Exits 1 unless all of them are caught.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

import click

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Code, Mutant, StaleError

ROOT = Path(__file__).parents[2]
COPIED = ("formats", "migrate", "jobs", "tests", "pyproject.toml")
SECONDS_PER_TEST = 180
PASSED, FAILED = 0, 1
"""Exit codes of pytest; any other is an error of its own, as of a test that does not exist."""
NO_VERDICT = re.compile(
    r"^ERROR |^FAILED .*? - (\w*ImportError|ModuleNotFoundError|SyntaxError|NameError|UnboundLocalError"
    r"|AttributeError|TypeError|Failed: Timeout)",
    re.MULTILINE,
)


class Verdict(StrEnum):
    """What became of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    STALE = "STALE"
    BROKEN = "BROKEN"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One mutant, tried."""

    mutant: Mutant
    verdict: Verdict
    seconds: float
    said: str

    def __str__(self) -> str:
        mutant = self.mutant
        return f"{mutant.name:<38} {mutant.claim:<7} {self.verdict:<9} {self.seconds:5.1f}  {mutant.tests[0]}"


@dataclass(frozen=True, slots=True)
class Tested:
    """What pytest made of some tests."""

    code: int
    said: str


def run_tests(copy: Path, tests: Iterable[str]) -> Tested:
    """Up to the first failure, over the code in `copy`."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=short", "--show-capture=no", f"--timeout={SECONDS_PER_TEST}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--basetemp={copy / '.tests'}", *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTEST_ADDOPTS": "", "COLUMNS": "240"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Tested(done.returncode, done.stdout)


def copy_code(folder: Path) -> None:
    """All that the tests need."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, folder / name)


def attempt(code: Code, mutant: Mutant) -> Outcome:
    """Apply it to a copy, run its tests there, and remove the copy."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=code.root.parent, prefix=f"{mutant.name}-") as folder:
        # With the byte code: what is not changed keeps its times, and need not be compiled again.
        copy = Path(shutil.copytree(code.root, Path(folder, "code"), ignore=shutil.ignore_patterns(".tests")))
        try:
            file, text = mutant.patched(code)
            tests = [code.test_id(test) for test in mutant.tests]
        except StaleError as error:
            return Outcome(mutant, Verdict.STALE, time.monotonic() - started, str(error))
        file = copy / file.relative_to(code.root)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            compiled.unlink()  # its time is told in seconds
        file.write_text(text, encoding="utf-8")
        tested = run_tests(copy, tests)
    return Outcome(mutant, _verdict(tested), time.monotonic() - started, tested.said)


def _verdict(tested: Tested) -> Verdict:
    if tested.code == PASSED:
        return Verdict.SURVIVED
    is_caught = tested.code == FAILED and NO_VERDICT.search(tested.said) is None
    return Verdict.CAUGHT if is_caught else Verdict.BROKEN


def attempt_all(mutants: list[Mutant], jobs: int) -> list[Outcome]:
    """Each in a copy of its own, once all of their tests have passed over the code as it is."""
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="stateferry-mutants-") as folder:
        pristine = Path(folder, "pristine")
        pristine.mkdir()
        copy_code(pristine)
        code = Code(pristine)
        try:
            tests = list(dict.fromkeys(code.test_id(test) for mutant in mutants for test in mutant.tests))
        except StaleError as error:
            raise click.ClickException(str(error)) from error
        started = time.monotonic()
        as_it_is = run_tests(pristine, tests)
        if as_it_is.code != PASSED:
            raise click.ClickException(f"the code as it is does not stand these tests:\n{as_it_is.said}")
        click.echo(f"the code as it is stands {len(tests)} tests, {time.monotonic() - started:.1f} s")
        with ThreadPoolExecutor(jobs) as pool:
            for outcome in pool.map(partial(attempt, code), mutants):
                click.echo(str(outcome))
                outcomes.append(outcome)
    return outcomes


@click.command()
@click.option("--only", multiple=True, type=click.Choice([mutant.name for mutant in MUTANTS]), help="May be repeated.")
@click.option("--list", "only_list", is_flag=True, help="Name the mutants, and try none.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="How many at the same time.")
def main(*, only: tuple[str, ...], only_list: bool, jobs: int) -> None:
    """Try every mutant. With --only what the tests said is shown too."""
    mutants = [mutant for mutant in MUTANTS if not only or mutant.name in only]
    if only_list:
        for mutant in mutants:
            click.echo(f"{mutant.name:<38} {mutant.claim:<7} {mutant.definition}")
        return
    started = time.monotonic()
    outcomes = attempt_all(mutants, jobs)
    missed = [outcome for outcome in outcomes if outcome.verdict is not Verdict.CAUGHT]
    for outcome in outcomes if only else missed:
        click.echo(f"\n{outcome.mutant.name}: {outcome.verdict}\n{outcome.said}")
    click.echo(f"{len(outcomes) - len(missed)} of {len(outcomes)} mutants caught, {time.monotonic() - started:.0f} s")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
