"""Each situation gets its own folder, and leaves no temporary files."""

import io
import subprocess
import sys
from contextlib import redirect_stdout
from typing import Any

import pytest

from migrate.stores import lock
from tests.bad_input.conftest import commands, folder, memory
from tests.dry_run.conftest import temporary

__all__ = ["commands", "folder", "memory", "temporary"]


class _Probes:
    """Replaces `subprocess` where lock files are probed: this process holds none, and can probe by itself."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(subprocess, name)

    def run(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401
        """Run the code of the probe in this process."""
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
            patch.setattr(sys, "stdin", io.StringIO(options["input"]))
            try:
                exec(command[-1], {})
            except OSError:
                return subprocess.run(command, **options)  # noqa: PLW1510 - the caller says it
        return subprocess.CompletedProcess(command, 0, out.getvalue(), "")


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saves ten processes per situation."""
    monkeypatch.setattr(lock, "subprocess", _Probes())
