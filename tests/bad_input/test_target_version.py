"""`[target] version`: what the owner's version cannot open is refused; without the key nothing is asked."""

from __future__ import annotations

import shutil

import pytest

from migrate.batch.identity import spec_identity, stable_json
from migrate.errors import ExitCode
from migrate.spec.conversion import conversion_ref
from migrate.spec.spec import load_spec
from tests.bad_input.support import STORE, TASKS, Migration, expected_orders
from tests.support import TIMESTAMPED, UNKNOWN_TIMESTAMP, make_families, numbered, read_families

FAMILY = "keyValueWithTimestamp"
POSITION = bytes.fromhex("00 00000001 00000002 696e 00000001 00000000 0000000000000005") + bytes(175)
"""As Kafka Streams 4.3.1 writes it: of topic "in", partition 0, the record 5."""


def offsets(task: str) -> dict[bytes, bytes]:
    topic = f"orders-app-orders-changelog-{task[-1]}".encode()
    return {topic: (41).to_bytes(8, "big"), b"status": bytes(8), b"position": POSITION}


def timestamped(records: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {key: UNKNOWN_TIMESTAMP + value for key, value in records.items()}


@pytest.fixture
def of_4_3(app: Migration) -> Migration:
    """Every store partition has the column family that Kafka Streams 4.3 adds at its first start."""
    for task in TASKS:
        shutil.rmtree(app.source / task / "rocksdb" / STORE)
        make_families(app.source / task / "rocksdb" / STORE, {"default": numbered(20), "offsets": offsets(task)})
        checkpoint = app.source / task / ".checkpoint"
        kept = [line for line in checkpoint.read_text().splitlines()[2:] if f"-{STORE}-changelog" not in line]
        checkpoint.write_text("\n".join(["0", str(len(kept)), *kept, ""]))
        (app.source / task / f"{STORE}.position").unlink(missing_ok=True)
    return app


@pytest.mark.parametrize("version", ["3.9", "4.0.1", "4.2"])
def test_for_an_older_version_what_4_3_keeps_inside_goes_into_files(of_4_3: Migration, version: str) -> None:
    of_4_3.set("target", version=version)

    of_4_3.completes({f"{task}/rocksdb/{STORE}": timestamped(numbered(20)) for task in TASKS})

    for task in TASKS:
        assert set(read_families(of_4_3.target / task / "rocksdb" / STORE)) == {"default", FAMILY}
        lines = (of_4_3.target / task / ".checkpoint").read_text().splitlines()
        assert f"orders-app-orders-changelog {task[-1]} 41" in lines[2:]
        assert lines[:2] == ["0", str(len(lines) - 2)]
        assert (of_4_3.target / task / "orders.position").read_bytes() == b"0\n1\nin 0 5\n"


def test_what_other_stores_say_in_a_shared_file_stays(of_4_3: Migration) -> None:
    """The new line comes behind those of the stores that are not migrated."""
    others = {
        task: [
            line for line in (of_4_3.source / task / ".checkpoint").read_text().splitlines()[2:] if STORE not in line
        ]
        for task in TASKS
        if (of_4_3.source / task / ".checkpoint").exists()
    }
    of_4_3.set("target", version="4.2")

    of_4_3.completes({})

    for task, lines in others.items():
        assert [
            line for line in (of_4_3.target / task / ".checkpoint").read_text().splitlines()[2:] if STORE not in line
        ] == lines


@pytest.mark.parametrize("version", ["4.3", "4.3.1"])
def test_the_version_that_wrote_it_opens_it(of_4_3: Migration, version: str) -> None:
    of_4_3.set("target", version=version)

    assert of_4_3.run().code == ExitCode.DONE


@pytest.mark.parametrize("version", ["3.9.1", "4.2.0", "4.3"])
def test_every_known_version_opens_what_an_older_one_wrote(app: Migration, version: str) -> None:
    app.set("target", version=version)

    app.completes(expected_orders())


def test_naming_the_version_is_part_of_what_the_migration_is_and_leaving_it_out_changes_nothing(app: Migration) -> None:
    app.run(verb="status")
    without = load_spec(app.spec_file)
    app.set("target", version="4.3")
    app.run(verb="status")
    named = load_spec(app.spec_file)

    assert stable_json(without.target) == f'{{"format":"{TIMESTAMPED}","path":"new/orders-app","stores":[]}}'
    before, after = (spec_identity(spec, conversion_ref(spec)) for spec in (without, named))
    assert {name for name in before if before[name] != after[name]} == {"[target]"}
