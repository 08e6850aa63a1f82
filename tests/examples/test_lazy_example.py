"""The example processor is upgraded on its own state, and killed: its numbers are right. A wrong one is noticed."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.lazy import version_1, version_2
from examples.lazy.recount import what_is_wrong
from examples.lazy.stream import NameSerde, offset_entry
from migrate import DualReadStore, open_store
from tests.support import RAW, TIMESTAMPED, UNKNOWN_TIMESTAMP, make_store

ROOT = Path(__file__).resolve().parents[2]
KILLS = 4
ALICE = NameSerde().encode("alice")


def test_the_example_ends_with_the_right_numbers(tmp_path: Path) -> None:
    size = ["--names", "4000", "--events", "20000", "--kills", str(KILLS), "--folder", str(tmp_path / "lazy")]
    done = subprocess.run(
        [sys.executable, "-m", "examples.lazy", *size],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    killed = done.stdout.count("killed (SIGKILL)")
    assert killed >= 1  # a version may be through before its kill comes
    assert f"Every number is right, after {killed} kills" in done.stdout


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stream, whose first two events version 1 counted, and the state that version 2 made of it."""
    folder = tmp_path_factory.mktemp("counted")
    events, state = folder / "events.txt", folder / "state"
    events.write_text("alice 5\nbob 7\n", encoding="ascii")
    version_1.main(events, state)
    with events.open("a", encoding="ascii") as file:
        file.write("alice 3\n")
    version_2.main(events, state)
    return folder


def _put(family: str, key: bytes, value: bytes | None) -> Callable[[Path], None]:
    def change(state: Path) -> None:
        with open_store(state, format=RAW, family=family, read_only=False) as store:
            store.put(key, value)

    return change


TAMPERED = {
    "a wrong sum": _put(version_2.FAMILY, ALICE, version_2.TotalsSerde().encode(version_2.Totals(2, 9, 3))),
    "a lost name": _put(version_2.FAMILY, ALICE, None),
    "a name too many": _put(version_2.FAMILY, ALICE + b"!", version_2.TotalsSerde().encode(version_2.Totals())),
    "another offset": _put(version_2.FAMILY, *offset_entry(2)),
    "an old record": _put("default", ALICE, version_1.TotalsSerde().encode(version_1.Totals(1, 5))),
}


def test_the_recount_agrees_with_what_was_counted(counted: Path) -> None:
    assert what_is_wrong(counted / "events.txt", counted / "state", upgraded_at=2) == []
    with open_store(counted / "state", format=RAW, family=version_2.FAMILY) as store:
        assert store.get(ALICE) == version_2.TotalsSerde().encode(version_2.Totals(count=2, sum=8, largest=3))


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
def test_the_recount_notices(counted: Path, tmp_path: Path, tamper: Callable[[Path], None]) -> None:
    state = tmp_path / "state"
    shutil.copytree(counted / "state", state)
    tamper(state)
    assert what_is_wrong(counted / "events.txt", state, upgraded_at=2) != []


class Context:
    """What the page takes for granted: a processor's context, whose punctuator comes once."""

    @staticmethod
    def schedule(*, interval_ms: int, punctuate: Callable[[int], int]) -> None:
        punctuate(interval_ms)


@pytest.mark.parametrize("page", ["README.md", "docs/lazy.md"])
def test_the_code_in_the_documents_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    others = ("migrate_store", "migrate.processors")  # the batch job's, and those that need a host
    blocks = [block for block in blocks if not any(each in block for each in others)]
    assert any("DualReadStore" in block for block in blocks)
    monkeypatch.chdir(tmp_path)
    make_store(Path("state/orders"), {b"2026-01": b"one", b"key": b"old", b"untouched": b"old"})
    names: dict[str, Any] = {
        "context": Context,
        "NameSerde": NameSerde,
        "TotalsSerde": version_2.TotalsSerde,
        "Totals": version_2.Totals,
    }
    for block in blocks:
        if "stores.open" in block:  # the same directory again
            names["store"].close()
        exec(block, names)
    store = names["store"]
    assert isinstance(store, DualReadStore)
    store.close()
    assert store.is_converged
    with open_store("state/orders", format=TIMESTAMPED) as plain:
        assert plain.get(b"key") == UNKNOWN_TIMESTAMP + b"old"
        assert plain.get(b"untouched") == UNKNOWN_TIMESTAMP + b"old"
