"""`finalize` and `abandon` ask before they remove anything, and on a terminal only."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest

from migrate import cutover, load_spec, run, status
from migrate.errors import ExitCode
from tests.shared.commands import stateferry
from tests.shared.following import COMMAND
from tests.support import make_store, numbered, spec_file

QUESTION = "Continue? [y/N]: "
INTERRUPT, END = b"\x03", b"\x04"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    make_store(tmp_path / "old", numbered(400))
    file = spec_file(tmp_path / "my spec.toml", name="x", target={"path": None})
    run(load_spec(file))
    return file


def take_the_terminal() -> None:
    """Make standard input the process's own terminal, from which ^C is a signal: one that a shell may have ignored."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def on_a_terminal(answer: bytes, verb: str, spec: Path) -> tuple[int, str]:
    """The exit code, and what the terminal shows."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, verb, str(spec)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=take_the_terminal,  # noqa: PLW1509
    ) as process:
        os.close(theirs)
        shown = ""
        try:
            while select.select([ours], [], [], 30)[0] and (part := os.read(ours, 4096)):
                shown += part.decode()
                if QUESTION in shown and answer:
                    time.sleep(0.3)  # readline misses a signal that comes before it waits
                    os.write(ours, answer)
                    answer = b""
        except OSError:  # the end, on Linux
            pass
        try:
            code = process.wait(timeout=60)
        finally:
            process.kill()
    os.close(ours)
    return code, " ".join(shown.split())


def test_finalize_names_what_goes_and_removes_it_only_for_a_yes(spec: Path) -> None:
    cutover(load_spec(spec))
    kept = spec.parent / "work/x/old"
    for answer, code in ((b"n\n", ExitCode.REFUSED), (END, ExitCode.REFUSED), (INTERRUPT, ExitCode.INTERRUPTED)):
        ended, shown = on_a_terminal(answer, "finalize", spec)
        assert ended == code, shown
        assert "This removes the old stores of 1 store partition, " in shown
        assert f"KiB, and ends the possibility of rollback. {QUESTION.strip()}" in shown
        assert "nothing was removed" in shown
        assert "Traceback" not in shown
        assert kept.is_dir()
        assert status(load_spec(spec)).state == "cut over"
    ended, shown = on_a_terminal(b"y\n", "finalize", spec)
    assert (ended, kept.exists(), status(load_spec(spec)).state) == (0, False, "finalized"), shown
    assert QUESTION.strip() not in on_a_terminal(b"", "finalize", spec)[1]


def test_abandon_asks_too_and_not_where_nobody_can_answer(spec: Path) -> None:
    ended, shown = on_a_terminal(b"\n", "abandon", spec)
    assert (ended, spec.parent.joinpath("work/x").is_dir()) == (ExitCode.REFUSED, True)
    assert f"This removes {spec.parent / 'work/x'} with the new stores of 1 store partition, " in shown
    done = stateferry("abandon", spec)
    assert (done.returncode, QUESTION in done.stdout) == (0, False)
