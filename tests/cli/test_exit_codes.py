"""Whatever ends a command early is no success (I9)."""

from collections.abc import Iterator

import pytest

from migrate.cli.command import exit_code_of
from migrate.errors import ExitCode, InterruptedMigrationError, MigrationError
from migrate.show.output import Output


def _kinds(kind: type[MigrationError] = MigrationError) -> Iterator[type[MigrationError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)


def _code_of(error: BaseException) -> int:
    def command() -> None:
        raise error

    return exit_code_of(command, Output())


@pytest.mark.parametrize("kind", list(_kinds()))
def test_every_error_has_its_own_code_and_none_is_0(kind: type[MigrationError]) -> None:
    error = kind.__new__(kind)  # some take more than these two
    MigrationError.__init__(error, "what", hint="next")
    assert _code_of(error) is kind.exit_code is not ExitCode.DONE


@pytest.mark.parametrize("error", [InterruptedMigrationError("interrupted"), KeyboardInterrupt()])
def test_an_interruption_is_5(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    assert _code_of(error) is ExitCode.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_anything_else_is_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert _code_of(RuntimeError("odd")) is ExitCode.BUG
    assert "this is a bug: RuntimeError: odd" in capsys.readouterr().err


def test_only_what_ends_by_itself_is_done() -> None:
    assert exit_code_of(lambda: None, Output()) is ExitCode.DONE
