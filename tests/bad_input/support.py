"""A migration over a real store, run by the real command, and what every refusal and failure must have in common."""

import json
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate.errors import ExitCode
from migrate.show.text.progress import progress
from migrate.spec.spec import Spec, load_spec
from tests.shared.commands import Commands, Outcome
from tests.support import (
    KEY_VALUE,
    RAW,
    TIMESTAMPED,
    UNKNOWN_TIMESTAMP,
    copy_fixture,
    fixture_records,
    make_store,
    numbered,
    read_families,
    to_toml,
    tree_state,
)

Sections = dict[str, Any]
Stores = Mapping[str, Mapping[bytes, bytes]]
"""The records of each RocksDB directory, by path in the new state directory."""

STORE = "orders"
TASKS = ("0_0", "0_1", "0_2")


@dataclass
class Migration:
    """A spec in `folder`, which a test may change before each run."""

    commands: Commands
    folder: Path
    source: Path
    spec: Sections

    @property
    def target(self) -> Path:
        """Where the new state directory is to appear."""
        return self.folder / str(self.spec["target"].get("path", "new"))

    @property
    def home(self) -> Path:
        """The migration's folder in the work_dir."""
        return self.folder / "work" / "test"

    @property
    def spec_file(self) -> Path:
        """The spec, written anew by each run."""
        return self.folder / "migration.toml"

    @property
    def is_planned(self) -> bool:
        """Whether a run got as far as storing its plan."""
        return any(self.home.glob("plan-*.json"))

    def set(self, section: str, **keys: object) -> None:
        """Change a section of the spec."""
        self.spec[section] = {**self.spec.get(section, {}), **keys}

    def module(self, code: str, *, function: str = "convert") -> None:
        """Put a Python module beside the spec and name its function."""
        (self.folder / "conversion.py").write_text(textwrap.dedent(code), encoding="utf-8")
        self.set("conversion", function=f"conversion:{function}")

    def load(self) -> Spec:
        """The spec, as a verb of the library takes it."""
        self.write_spec()
        return load_spec(self.spec_file)

    def write_spec(self) -> None:
        """As the file that the commands read."""
        self.spec_file.write_text(to_toml(self.spec), encoding="utf-8")

    def run(self, *options: str, verb: str = "run", before: str = "") -> Outcome:
        """The command, in a process of its own; `before` is Python code that prepares it."""
        self.write_spec()
        options = (*(("--no-spark", "--quiet") if verb == "run" else ()), *options)
        return self.commands.run([verb, *options, str(self.spec_file)], before=before)

    def fails(self, code: ExitCode, *said: str, before: str = "") -> Outcome:
        """Run it. It must say all of this, tell what to do next, publish nothing and leave the source alone.

        SPEC stands for the spec's path.
        """
        source = _state_of(self.source)
        beside = {path.name for path in self.folder.iterdir()}
        outcome = self.run(before=before)
        check_clear(outcome, code, *self.named(*said))
        assert not outcome.out
        empty = {path.name for path in self.folder.iterdir() if path.is_dir() and not any(path.iterdir())}
        appeared = {path.name for path in self.folder.iterdir()} - beside - empty
        assert appeared <= {"work", "migration.toml", "__pycache__"}, f"left behind: {appeared}"
        assert _state_of(self.source) == source
        return outcome

    def named(self, *said: str) -> list[str]:
        """These words with the spec's path for SPEC."""
        return [words.replace("SPEC", str(self.spec_file)) for words in said]

    def refused(self, *said: str) -> Outcome:
        """Exit 6, before anything was written that matters."""
        planned = self.is_planned
        outcome = self.fails(ExitCode.REFUSED, *said)
        assert self.is_planned == planned
        return outcome

    def completes(self, stores: Stores) -> dict[str, Any]:
        """The same command ends well, and the new stores hold exactly these records; its report."""
        source = _state_of(self.source)
        outcome = self.run("--json")
        assert outcome.code == ExitCode.DONE, outcome.err
        assert not outcome.err
        assert _state_of(self.source) == source
        for path, records in stores.items():
            filled = [found for found in read_families(self.target / path).values() if found]
            assert filled == ([dict(records)] if records else [])
        report: dict[str, Any] = json.loads(outcome.out)
        return report


def check_clear(outcome: Outcome, code: ExitCode, *said: str) -> None:
    """The exit code, what is wrong and where, what to do next, and no trace."""
    print(outcome.err)
    assert "Traceback" not in outcome.err
    assert outcome.code == code, outcome.out
    message = outcome.message
    for words in said:
        assert words in message
    happened, _, hint = message.partition(" next: ")
    assert len(happened) > len("stateferry: ")
    assert hint


def _state_of(folder: Path) -> object:
    return tree_state(folder) if folder.exists() else None


def app_migration(commands: Commands, folder: Path) -> Migration:
    """A store of the application directory that Kafka Streams left: plain to timestamped."""
    source = copy_fixture(folder)
    sections: Sections = {
        "name": "test",
        "work_dir": "work",
        "source": {"format": KEY_VALUE, "path": source.name, "store": STORE},
        "target": {"format": TIMESTAMPED, "path": f"new/{source.name}"},
    }
    return Migration(commands, folder, source, sections)


def raw_migration(commands: Commands, folder: Path, *, count: int = 4000) -> Migration:
    """A RocksDB directory with so many records, copied record by record in several chunks."""
    source = make_store(folder / "state", raw_records(count))
    sections: Sections = {
        "name": "test",
        "work_dir": "work",
        "source": {"format": RAW, "path": source.name},
        "target": {"format": RAW, "path": "new"},
        "run": {"chunk_size": 15 * count // 2},
    }
    return Migration(commands, folder, source, sections)


def raw_records(count: int = 4000) -> dict[bytes, bytes]:
    """What lies in the store of `raw_migration`."""
    return numbered(count)


def expected_orders(*, tasks: Sequence[str] = TASKS) -> dict[str, dict[bytes, bytes]]:
    """What the fixture's plain store `orders` becomes: the same records, their timestamps unknown."""
    return {
        f"{task}/rocksdb/{STORE}": {key: UNKNOWN_TIMESTAMP + value for key, value, _ in fixture_records(task, STORE)}
        for task in tasks
    }


def at_event(event: str, code: str) -> str:
    """Code that has `code` run once, by a listener like any other, when the run reaches a point."""
    return f"""
import contextlib, {progress.__module__} as module
reached = []
def listener(event):
    if event.name == {event!r} and not reached:
        reached.append(event)
        exec({code!r}, {{}})
@contextlib.contextmanager
def progress(output):
    yield listener
module.progress = progress
"""


def bound_by_mode_bits() -> str:
    """Code that takes from root what lets it read and write every file, for good: children have it no more either."""
    if os.geteuid() != 0:
        return ""
    dac_override, dac_read_search, drop_bounding = 1, 2, 24
    return f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
class Data(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]
header, data = Header(0x20080522, 0), (Data * 2)()
assert libc.capget(ctypes.byref(header), data) == 0
for capability in ({dac_override}, {dac_read_search}):
    assert libc.prctl({drop_bounding}, capability, 0, 0, 0) == 0
    for name in ("effective", "permitted", "inheritable"):
        setattr(data[0], name, getattr(data[0], name) & ~(1 << capability))
assert libc.capset(ctypes.byref(header), data) == 0
"""
