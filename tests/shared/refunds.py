"""A migration of two tasks of a real application: several chunks for each, and rejects."""

import shutil
from pathlib import Path

from migrate.batch.ledger.standing import read_standing
from migrate.spec.spec import Spec
from tests.support import copy_fixture, read_delta, read_families, tree_state

SECTIONS = """
[source]
format = "kafka-streams.key-value"
path = "orders-app"
store = "refunds"
[conversion]
function = "tests.shared.conversions:picky"
allow = ["changelog", "unclean-source"]
[run]
chunk_size = "4 KiB"
on_reject = "dead-letter"
max_reject_share = 0.5
[target]
format = "kafka-streams.timestamped-key-value"
"""
"""Of a spec; a path of the target may follow."""


def make_application(base: Path) -> Path:
    """Two tasks with the store `refunds` and, in one of them, another one."""
    application = copy_fixture(base)
    for unwanted in ("0_2", "0_0/rocksdb/orders", "0_1/rocksdb/orders", "0_1/rocksdb/customers"):
        shutil.rmtree(application / unwanted)
    return application


def make_migration(base: Path, *, publishes: bool = True) -> Path:
    """The spec's file, in the new `base`."""
    base.mkdir(parents=True)
    make_application(base)
    file = base / "migration.toml"
    target = 'path = "new/orders-app"\n' if publishes else ""
    file.write_text(f'name = "test"\nwork_dir = "work"\n{SECTIONS}{target}')
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
