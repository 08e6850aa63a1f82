"""Migrations small enough to look at every call that they make."""

import shutil
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from migrate.batch.ledger.standing import read_standing
from migrate.spec.spec import Spec, load_spec
from tests.durability.disk import Disk
from tests.durability.trace import Call, Op, record
from tests.support import copy_fixture, read_delta, read_families, tree_state

_SPEC = """
name = "test"
work_dir = "work"
[source]
format = "kafka-streams.key-value"
path = "orders-app"
store = "refunds"
[target]
format = "kafka-streams.timestamped-key-value"
path = "new/orders-app"
[conversion]
function = "tests.shared.conversions:picky"
allow = ["changelog", "unclean-source"]
[run]
chunk_size = "4 KiB"
on_reject = "dead-letter"
max_reject_share = 0.5
"""


def make_migration(base: Path, *, publishes: bool = True) -> Path:
    """Two tasks of a real application, several chunks for each, and rejects: the spec's file, in the new `base`."""
    base.mkdir(parents=True)
    application = copy_fixture(base)
    for unwanted in ("0_2", "0_0/rocksdb/orders", "0_1/rocksdb/orders", "0_1/rocksdb/customers"):
        shutil.rmtree(application / unwanted)
    file = base / "migration.toml"
    file.write_text(_SPEC if publishes else _SPEC.replace('path = "new/orders-app"\n', ""))
    return file


def result_of(base: Path) -> dict[str, object]:
    """Every record of the published stores and of the dead letters, and all other published files."""
    stores = sorted((base / "new/orders-app").glob("*/rocksdb/refunds"))
    found: dict[str, object] = {str(path.relative_to(base)): read_families(path) for path in stores}
    files = {
        name: state[1:] for name, state in tree_state(base / "new/orders-app").items() if "/rocksdb/refunds" not in name
    }
    rejected = sorted(row["key"] for row in read_delta(base / "work" / "test" / "dead-letters"))
    return found | files | {"dead letters": rejected}


def chunks_done(spec: Spec) -> int:
    """Chunks that the ledger has, with their files."""
    return len(read_standing(spec.home).receipts)


@dataclass(frozen=True, slots=True)
class Recording:
    """One verb, traced, over everything below `base`."""

    base: Path
    calls: list[Call]
    begin: Disk
    """Before the first call. Never changed: `disk()` gives a copy to apply calls to."""

    @property
    def spec(self) -> Spec:
        return load_spec(self.base / "migration.toml")

    @property
    def home(self) -> Path:
        """The migration's own folder."""
        return self.spec.home

    def disk(self) -> Disk:
        """The disk as it was before the first call."""
        return deepcopy(self.begin)


def record_verb(base: Path, verb: str = "run", *, broken: tuple[str, ...] = (), begin: Disk | None = None) -> Recording:
    """Trace one verb. `begin`: what is below `base`, where not all of it is safe, as after a kill."""
    disk = Disk(base) if begin is None else deepcopy(begin)
    disk.restart_clock()
    events, log = base.with_name(base.name + ".events"), base.with_name(base.name + ".trace")
    program = ["-m", "tests.durability.program", str(base / "migration.toml"), str(events), verb, *broken]
    calls = [call for call in record(program, log=log, events=events) if call.op is Op.EVENT or disk.concerns(call)]
    return Recording(base, calls, disk)
