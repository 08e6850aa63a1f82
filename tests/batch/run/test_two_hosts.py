"""Two commands of one migration at work at once, as on two hosts, between which no lock reaches."""

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from migrate import FencedError, RefusedError, Spec, abandon, cutover, run
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import make_store, numbered, raises, raw_spec, read_family

RECORDS = numbered(300)
IN_PLACE = {"path": None}
_CALLS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.scandir", "os.listdir"}


class _Interruption:
    """Another command runs from start to end just before the n-th call that names something in the folder."""

    def __init__(self) -> None:
        self._left = 0
        self._folder = ""
        self._command: Callable[[], object] | None = None
        sys.addaudithook(self._hook)

    @contextmanager
    def at(self, call: int, folder: Path, command: Callable[[], object]) -> Iterator[None]:
        self._left, self._folder, self._command = call, str(folder), command
        try:
            yield
        finally:
            self.was_made, self._command = self._command is None, None

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._command is None or event not in _CALLS:
            return
        names = [os.fsdecode(name) for name in arguments if isinstance(name, str | bytes | os.PathLike)]
        if any(name.startswith(self._folder) for name in names):
            self._left -= 1
            if not self._left:
                command, self._command = self._command, None
                command()


@pytest.fixture(scope="module")
def interruption() -> _Interruption:
    return _Interruption()  # once: an audit hook stays


@pytest.fixture(autouse=True)
def without_a_common_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda _file, _how: None)


def _spec(base: Path, **sections: object) -> Spec:
    return raw_spec(base, base / "old", run={"chunk_size": "4 KiB"}, **sections)


def _outcome(command: Callable[[Spec], object], spec: Spec) -> str:
    """Anything but a refusal is raised, as what ends with "this is a bug"."""
    try:
        command(spec)
    except RefusedError as error:
        return "fenced" if isinstance(error, FencedError) else "refused"
    return "done"


_SEEN = (*range(4, 21), 30, 60, 110, 180, 260)
"""Calls of a run: among the first twenty it names its marker, before it opens the ledger."""


@pytest.mark.parametrize("begun", ["", "chunk.committed"])
@pytest.mark.parametrize("other", [run, abandon], ids=["run", "abandon"])
def test_the_one_that_loses_is_refused_wherever_the_other_overtakes_it(
    other: Callable[[Spec], object], begun: str, interruption: _Interruption, tmp_path: Path
) -> None:
    outcomes = set()
    for call in _SEEN:
        base = tmp_path / str(call)
        make_store(base / "old", RECORDS)
        spec = _spec(base)
        if begun:
            raises(StoppedError, "", run, spec, on_event=StopAt(begun))
        with interruption.at(call, spec.home, partial(_outcome, other, spec)):
            outcomes.add(_outcome(run, spec))
        if not interruption.was_made:
            break
        _outcome(run, spec)
        assert read_family(base / "new") == RECORDS, call
        shutil.rmtree(base)
    assert outcomes <= {"done", "fenced", "refused"}
    assert "fenced" in outcomes


def test_what_vanishes_elsewhere_is_no_fence(tmp_path: Path) -> None:
    make_store(tmp_path / "old", RECORDS)
    elsewhere = FileNotFoundError(2, "gone", "/elsewhere")
    with patch("migrate.batch.run.already_migrated", side_effect=elsewhere), pytest.raises(FileNotFoundError):
        run(_spec(tmp_path))


def test_a_cut_over_whose_folder_vanishes_is_refused(interruption: _Interruption, tmp_path: Path) -> None:
    make_store(tmp_path / "old", RECORDS)
    spec = _spec(tmp_path, target=IN_PLACE)
    run(spec)
    home = spec.home.rename(tmp_path / "kept")
    raises(RefusedError, "", cutover, spec)
    home.rename(spec.home)
    with interruption.at(12, spec.home, partial(shutil.rmtree, spec.home)):
        assert _outcome(cutover, spec) in ("fenced", "refused")
    assert read_family(tmp_path / "old") == RECORDS
