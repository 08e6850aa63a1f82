"""Which records of the log a command shows: all of them, or what bars and events beside them leave out."""

import io
import logging
import sys

import pytest

from migrate.batch.chunk.executor import RETRIES, STARTS
from migrate.batch.log import LOGGER
from migrate.show.output import Output
from migrate.show.text.progress import progress, start_shown


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _log_everything() -> None:
    for logger in (LOGGER, RETRIES, STARTS):
        for level in (logging.INFO, logging.WARNING):
            logging.getLogger(logger).log(level, "<%s %s>", logger, level)


def _shown(stream: io.StringIO) -> set[tuple[str, int]]:
    loggers = ((logger, level) for logger in (LOGGER, RETRIES, STARTS) for level in (logging.INFO, logging.WARNING))
    return {(logger, level) for logger, level in loggers if f"<{logger} {level}>" in stream.getvalue()}


EVERY_WARNING = {(logger, logging.WARNING) for logger in (LOGGER, RETRIES, STARTS)}
START = (STARTS, logging.INFO)
RETRY = (RETRIES, logging.INFO)


@pytest.mark.parametrize(
    ("output", "stream", "shown"),
    [
        (Output(), io.StringIO, {(LOGGER, logging.INFO), RETRY, START} | EVERY_WARNING),
        (Output(), _Terminal, {START} | EVERY_WARNING),
        (Output(verbosity=1), io.StringIO, {RETRY, START} | EVERY_WARNING - {(LOGGER, logging.WARNING)}),
        (Output(json_log=True), _Terminal, {(LOGGER, logging.INFO), RETRY, START} | EVERY_WARNING),
        (Output(quiet=True), _Terminal, set()),
    ],
    ids=["a file", "bars on a terminal", "events", "JSON on a terminal", "quiet"],
)
def test_what_else_is_shown_is_not_said_twice(
    output: Output,
    stream: type[io.StringIO],
    shown: set[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", stream())
    with progress(output):
        _log_everything()
    written = sys.stderr
    assert isinstance(written, io.StringIO)
    assert _shown(written) == shown


def test_a_command_without_a_bar_shows_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = {RETRY, (RETRIES, logging.WARNING), START, (STARTS, logging.WARNING)}
    for output, shown in ((Output(), waits), (Output(quiet=True), set())):
        written = io.StringIO()
        monkeypatch.setattr(sys, "stderr", written)
        with start_shown(output):
            _log_everything()
        assert _shown(written) == shown
