"""One bit flipped in any file below the work_dir, at any stage: refused, repaired, or the same records.

`python -m tests.bad_input.flips COUNT [SEED]` tries random bits of random files.
"""

import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pyarrow.parquet as pq

from migrate import Spec, abandon, cutover, finalize, plan, report, rollback, run, status, verify
from migrate.engine.portable import RecordDigest
from migrate.errors import CorruptionError, ExitCode, MigrationError, RefusedError
from migrate.stores.rocksdb.database import open_read_only
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import digest_by_hand, flip_byte, make_store, numbered, raises, raw_spec

KINDS = {
    "marker": "stateferry-folder.json",
    "plan": "plan-*.json",
    "log of the ledger": "ledger/_delta_log/*.json",
    "data of the ledger": "ledger/*.parquet",
    "chunk": "chunks/*.sst",
    "receipt": "chunks/*.receipt.json",
    "rejects": "chunks/*.rejects.parquet",
    "dead letters": "dead-letters/*",
    "record of the snapshot": "snapshot/snapshot.json",
    "tables of the snapshot": "snapshot/*/*.sst",
    "metadata of the snapshot": "snapshot/*/*",
    "tables of a new store": "new/*.sst",
    "metadata of a new store": "new/*",
    "tables of an old store": "old/*.sst",
    "metadata of an old store": "old/*",
}
"""By name in the migration's folder; the first that fits."""
EMPTY = ("run.lock", "*/LOCK", "*.log")
REFUSALS = (ExitCode.FAILED, ExitCode.MISMATCH, ExitCode.REFUSED)
RECORDS = numbered(300)
KEPT = {key: value for key, value in RECORDS.items() if not key.endswith(b"7")}
DEAD = {key: value for key, value in RECORDS.items() if key not in KEPT}


def make_spec(base: Path) -> Spec:
    """One RocksDB directory, in place, in several chunks, some records rejected."""
    return raw_spec(
        base,
        base / "state",
        target={"path": None},
        run={"chunk_size": "4 KiB", "on_reject": "dead-letter", "max_reject_share": 0.5},
        conversion={"function": "tests.shared.conversions:picky", "allow": ["changelog"]},
    )


def _run_until(spec: Spec, name: str) -> None:
    raises(StoppedError, name, run, spec, on_event=StopAt(name))


def _run_and_cut_over(spec: Spec) -> None:
    run(spec)
    cutover(spec)


LOOKS: dict[str, Callable[[Spec], object]] = {"status": status, "report": report, "plan": plan, "verify": verify}
STAGES: dict[str, tuple[Callable[[Spec], object], dict[str, Callable[[Spec], object]]]] = {
    "rewritten": (lambda spec: _run_until(spec, "assemble.started"), {"run": _run_and_cut_over, "abandon": abandon}),
    "assembled": (lambda spec: _run_until(spec, "verify.started"), {"run": _run_and_cut_over}),
    "verified": (run, {"run": _run_and_cut_over, "cutover": cutover, **LOOKS}),
    "cut over": (_run_and_cut_over, {"rollback": rollback, "finalize": finalize, "run": run, "verify": verify}),
}
"""How to get there, and what an operator may do next."""
MAKES_ANEW = {"rewritten": ("run",), "assembled": ("run",), "verified": ("run",)}
"""Where each verb reads all that it leaves."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A migration that has come to some point, restored again and again."""

    base: Path
    name: str

    @property
    def spec(self) -> Spec:
        """Of the migration."""
        return make_spec(self.base)

    @property
    def pristine(self) -> Path:
        """What is restored."""
        return self.base.with_name(f"{self.base.name}.pristine")

    def prepare(self) -> None:
        """Once."""
        make_store(self.base / "state", RECORDS)
        STAGES[self.name][0](self.spec)
        self.base.rename(self.pristine)

    def restore(self) -> None:
        """As it was, hard links and times included."""
        shutil.rmtree(self.base, ignore_errors=True)
        subprocess.run(["cp", "-a", str(self.pristine), str(self.base)], check=True)

    def files(self) -> dict[str, list[Path]]:
        """Those of the migration's folder, by kind, relative to it."""
        home = self.pristine / self.spec.home.relative_to(self.base)
        found: dict[str, list[Path]] = {}
        for path in sorted(path for path in home.rglob("*") if path.is_file()):
            name = str(path.relative_to(home))
            kind = next((kind for kind, pattern in KINDS.items() if fnmatch(name, pattern)), "")
            is_empty = path.stat().st_size == 0 and any(fnmatch(name, pattern) for pattern in EMPTY)
            assert is_empty or kind, f"{name} is of no kind"
            if not is_empty:
                found.setdefault(kind, []).append(path.relative_to(home))
        return found


def outcome(stage: Stage, file: Path, at: int, bit: int, verb: str) -> str:
    """What a verb makes of it: the words of its refusal, or empty. Raises AssertionError for anything else."""
    stage.restore()
    spec = stage.spec
    flip_byte(spec.home / file, at, 1 << bit, quietly=True)
    try:
        STAGES[stage.name][1][verb](spec)
    except MigrationError as error:
        assert error.exit_code in REFUSALS, f"exit {error.exit_code}: {error}"
        assert error.hint, error
        return error.message
    _check_records(stage, file, verb)
    return ""


def _check_records(stage: Stage, file: Path, verb: str) -> None:
    """What the application finds is all old or all new; else RocksDB itself says that a block is damaged."""
    if verb in MAKES_ANEW.get(stage.name, ()):
        assert dead_letters(stage.spec.home) == DEAD
    has_new = (stage.name == "cut over" and verb != "rollback") or verb in ("run", "cutover")
    digest = RecordDigest()
    try:
        with open_read_only(stage.base / "state") as database:
            for batch in database.batches("default"):
                digest.update(batch)
    except (CorruptionError, RefusedError):
        assert file.suffix == ".sst"
        assert verb not in MAKES_ANEW.get(stage.name, ())
        return
    assert str(digest) == digest_by_hand((KEPT if has_new else RECORDS).items())


def dead_letters(home: Path) -> dict[bytes, bytes]:
    """What the table holds."""
    tables = map(pq.read_table, home.glob("dead-letters/*.parquet"))
    return {row["key"]: row["value"] for table in tables for row in table.to_pylist()}


def positions(size: int, count: int) -> Iterator[tuple[int, int]]:
    """The last byte, and some at even distances before it; with each another bit."""
    for number in range(1, count + 1):
        at = (size - 1) * number // count
        yield at, (at + number) % 8


def main() -> None:
    """Random bits."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    chance, seen, failed = random.Random(seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        stages = [Stage(Path(folder).resolve() / name.replace(" ", "-"), name) for name in STAGES]
        for stage in stages:
            stage.prepare()
        for _ in range(count):
            stage = chance.choice(stages)
            kind, files = chance.choice(sorted(stage.files().items()))
            file = chance.choice(files)
            home = stage.pristine / stage.spec.home.relative_to(stage.base)
            at, bit = chance.randrange((home / file).stat().st_size), chance.randrange(8)
            verb = chance.choice(sorted(STAGES[stage.name][1]))
            try:
                told = outcome(stage, file, at, bit, verb)
            except Exception as error:  # noqa: BLE001 - all that must not be is counted
                failed += 1
                print(f"{stage.name}: {verb}: {kind} {file}, byte {at}, bit {bit}: {type(error).__name__}: {error}")
                continue
            seen[f"{kind}: {'refused' if told else 'done'}"] += 1
    print(*(f"{number:6} {what}" for what, number in sorted(seen.items())), f"{failed} failed", sep="\n")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
