"""Exports that are killed again and again: what readers see in between, and what is there in the end.

`python -m tests.rows.export_kills --kills 40` kills so many processes, and prints what came of it.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.rows.exported import by_task, rows
from tests.support import KEY_VALUE, TIMESTAMPED, make_store, numbered, open_store, spec_file

TASKS = ("0_0", "0_1")
_RECORDS = 6000
_PATIENCE = 120.0


@dataclass(slots=True)
class Campaign:
    """One store, exported version after version, until enough processes were killed."""

    folder: Path
    kills: int
    seed: int = 0
    jobs: int = 1
    engine: str = "auto"
    """`portable`: in processes, where there are several jobs; otherwise in threads."""
    killed: int = 0
    kept: int = 0
    """Ranges that a later process has found finished."""
    states: dict[int, dict[str, dict[bytes, bytes]]] = field(default_factory=dict)
    """What each complete version has to show."""
    state: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    """The store as it is now."""

    def run(self) -> None:
        """Kill exports. Raises AssertionError where a reader sees what is no whole state of the store."""
        rng = random.Random(self.seed)
        self.state = {task: numbered(_RECORDS, value_size=60, seed=number) for number, task in enumerate(TASKS)}
        for task, records in self.state.items():
            make_store(self._store(task), records)
        self._write_spec()
        for turn in range(10 * self.kills):
            task = rng.choice(TASKS)
            self.state = {**self.state, task: {**self.state[task], b"turn": str(turn).encode()}}
            with open_store(self._store(task)) as store:
                store[b"turn"] = str(turn).encode()
            report = self._export(rng)
            self.kept += report["kept_ranges"]
            self.states[report["version"]] = self.state
            self._check()
            if self.killed >= self.kills:
                break
        entries = [line for each in self.table.glob("_delta_log/*.json") for line in each.read_text().splitlines()]
        added = {action["add"]["path"] for action in map(json.loads, entries) if "add" in action}
        assert {str(each.relative_to(self.table)) for each in self.table.rglob("*.parquet")} == added
        assert not [*self.table.rglob("*.tmp")]

    @property
    def table(self) -> Path:
        return self.folder / "table"

    def _store(self, task: str) -> Path:
        path = self.folder / "app" / task / "rocksdb" / "orders"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _write_spec(self) -> None:
        spec_file(
            self.folder / "migration.toml",
            source={"format": KEY_VALUE, "path": "app", "store": "orders"},
            target={"format": TIMESTAMPED, "path": None},
            run={"chunk_size": "16 KiB", "engine": self.engine},
        )

    def _export(self, rng: random.Random) -> dict[str, int]:
        """Start exports of one state until one ends by itself, and return its report."""
        while True:
            process = subprocess.Popen(self._command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            is_last = self.killed >= self.kills
            if not is_last and self._kill(process, rng):
                self.killed += 1
                self._check()
                continue
            out, errors = process.communicate(timeout=_PATIENCE)
            assert process.returncode == 0, errors
            report: dict[str, int] = json.loads(out)
            return report

    def _command(self) -> list[str]:
        options = ["--to", str(self.table), "--jobs", str(self.jobs), "--json"]
        return [sys.executable, "-m", "migrate", "export", str(self.folder / "migration.toml"), *options]

    def _kill(self, process: "subprocess.Popen[str]", rng: random.Random) -> bool:
        """Kill the process once it has made some more names in the table; whether it was alive then."""
        before, wanted, pause = self._names(), rng.randint(1, 40), rng.random() * 0.02
        until = time.monotonic() + _PATIENCE
        while process.poll() is None and len(self._names() - before) < wanted and time.monotonic() < until:
            time.sleep(0.0005)
        time.sleep(pause)
        is_alive = process.poll() is None
        if is_alive:
            process.kill()
            process.communicate()
        return is_alive

    def _names(self) -> set[str]:
        return {each.name for each in self.table.rglob("*")} if self.table.exists() else set()

    def _check(self) -> None:
        """A reader sees one whole state in each complete version, and in the newest: that, or the one of now."""
        if not [*self.table.glob("_delta_log/*.json")]:
            return
        for version, state in self.states.items():
            assert by_task(rows(self.table, version)) == state, f"version {version} has changed"
        before = self.states[max(self.states)] if self.states else {}
        assert by_task(rows(self.table)) in (before, self.state), "the newest version has some of the new rows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--engine", default="auto")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder), chosen.kills, chosen.seed, chosen.jobs, chosen.engine)
        campaign.run()
    print(
        f"{campaign.killed} kills, {len(campaign.states)} versions, {campaign.kept} ranges kept: all as they should be"
    )


if __name__ == "__main__":
    main()
