"""Mounts of one disk, as containers have them: plan, doctor and run say the same before anything is written."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from migrate import doctor, plan, run
from migrate.errors import RefusedError
from tests.support import make_store, raw_spec

RECORDS = {b"k%d" % number: b"v" for number in range(50)}


@contextmanager
def bound(source: Path, *, read_only: bool = False) -> Iterator[Path]:
    """The directory mounted once more, beside itself; skips the test where this process may not mount."""
    place = source.with_name(f"{source.name}-mounted")
    place.mkdir()
    done = subprocess.run(["mount", "--bind", source, place], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this process may not mount: {done.stderr.decode().strip()}")
    try:
        if read_only:
            subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.fixture
def mounted() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def said(folder: Path, source: Path, **sections: object) -> tuple[str, str]:
    """(message, hint) of all three; empty: they pass."""
    spec = raw_spec(folder, source, **sections)
    failed = [[each for each in ask(spec).checks if each.outcome == "failed"] for ask in (plan, doctor)]
    try:
        run(spec)
    except RefusedError as error:
        assert not (folder / "work/test/ledger").exists()
        for checks in failed:
            assert error.message in [" ".join(each.detail.split()) for each in checks]
        return error.message, error.hint
    assert failed == [[], []]
    return "", ""


@pytest.mark.parametrize("read_only", [False, True])
def test_links_from_another_mount_are_refused_before_a_run(tmp_path: Path, mounted: ExitStack, read_only: bool) -> None:
    make_store(tmp_path / "state/old", RECORDS)
    state = mounted.enter_context(bound(tmp_path / "state", read_only=read_only))

    message, hint = said(tmp_path, state / "old")
    assert message == f"cannot hard-link {state}/old to {tmp_path}/work/test: Invalid cross-device link"
    assert 'or set [run] snapshot = "copy"' in hint
    assert said(tmp_path, state / "old", run={"snapshot": "copy"}) == ("", "")
    assert (tmp_path / "new/CURRENT").exists()


def test_a_cut_over_across_two_mounts_is_refused_before_a_run(tmp_path: Path, mounted: ExitStack) -> None:
    make_store(tmp_path / "state/old", RECORDS)
    state = mounted.enter_context(bound(tmp_path / "state"))

    message, _ = said(tmp_path, state / "old", target={"path": None}, run={"snapshot": "copy"})
    assert message.endswith("are on different file systems or mounts, so that they cannot be exchanged")


def test_a_target_where_nothing_can_be_renamed_is_refused_before_a_run(tmp_path: Path, mounted: ExitStack) -> None:
    source = make_store(tmp_path / "old", RECORDS)
    (tmp_path / "out").mkdir()
    out = mounted.enter_context(bound(tmp_path / "out", read_only=True))

    message, hint = said(tmp_path, source, target={"path": str(out / "new")})
    assert (message, hint.partition(",")[0]) == (f"cannot write to {out}", "name another [target] path")


def test_a_target_on_another_mount_gets_copies(tmp_path: Path, mounted: ExitStack) -> None:
    source = make_store(tmp_path / "old", RECORDS)
    (tmp_path / "out").mkdir()
    out = mounted.enter_context(bound(tmp_path / "out"))

    assert said(tmp_path, source, target={"path": str(out / "new")}) == ("", "")
    assert (tmp_path / "out/new/CURRENT").exists()


def test_a_target_on_another_mount_needs_room_for_copies(
    tmp_path: Path, mounted: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the new store, which is larger for a while, and of what is carried over."""
    source = make_store(tmp_path / "old", {key: bytes(20_972) for key in RECORDS})  # 1 MiB
    (tmp_path / "out").mkdir()
    out = mounted.enter_context(bound(tmp_path / "out"))
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=0 if place == out else 1 << 40))

    message, _ = said(tmp_path, source, target={"path": str(out / "new")})
    assert message == f"[target] path {out}/new has 0.0 MiB free, the new stores may need 2.2 MiB"
