"""`[target] version`: what the owner's version cannot open is refused; without the key nothing is asked."""

from __future__ import annotations

import shutil

import pytest

from migrate.errors import ExitCode
from migrate.functions import conversion_ref
from migrate.identity import spec_identity
from migrate.spec import load_spec
from tests.bad_input.support import STORE, TASKS, Migration, expected_orders
from tests.bad_input.test_spec_mistakes import misunderstood
from tests.support import RAW, TIMESTAMPED, make_families, numbered

OFFSETS = {b"orders-app-orders-changelog-0": (41).to_bytes(8, "big"), b"status": bytes(8)}


@pytest.fixture
def of_4_3(app: Migration) -> Migration:
    """Every store partition has the column family that Kafka Streams 4.3 adds at its first start."""
    for task in TASKS:
        shutil.rmtree(app.source / task / "rocksdb" / STORE)
        make_families(app.source / task / "rocksdb" / STORE, {"default": numbered(20), "offsets": OFFSETS})
    return app


@pytest.mark.parametrize("version", ["3.9", "4.0.1", "4.2"])
def test_an_older_version_cannot_open_what_4_3_has_opened(of_4_3: Migration, version: str) -> None:
    of_4_3.set("target", version=version)

    of_4_3.refused(
        f"{of_4_3.source}/0_0/rocksdb/orders has the column family 'offsets', which Kafka Streams before 4.3 cannot "
        f"open, and [target] version is {version}",
        'next: let 4.3 or newer open the new store: [target] version = "4.3"; an older one has to restore the store '
        "from its changelog",
    )
    assert not of_4_3.home.exists()


@pytest.mark.parametrize("version", ["4.3", "4.3.1"])
def test_the_version_that_wrote_it_opens_it(of_4_3: Migration, version: str) -> None:
    of_4_3.set("target", version=version)

    assert of_4_3.run().code == ExitCode.DONE


@pytest.mark.parametrize("version", ["3.9.1", "4.2.0", "4.3"])
def test_every_known_version_opens_what_an_older_one_wrote(app: Migration, version: str) -> None:
    app.set("target", version=version)

    app.completes(expected_orders())


def test_a_format_without_an_owner_has_no_versions(raw: Migration) -> None:
    raw.set("target", version="9.8")

    misunderstood(raw, f"[target] version: {RAW} has no owning system whose version could matter: leave it out")


def test_naming_the_version_is_part_of_what_the_migration_is_and_leaving_it_out_changes_nothing(app: Migration) -> None:
    app.run(verb="status")
    without = load_spec(app.spec_file)
    app.set("target", version="4.3")
    app.run(verb="status")
    named = load_spec(app.spec_file)

    assert without.target.model_dump_json(exclude={"version"}) == f'{{"format":"{TIMESTAMPED}","path":"new"}}'
    before, after = (spec_identity(spec, conversion_ref(spec)) for spec in (without, named))
    assert {name for name in before if before[name] != after[name]} == {"[target]"}
